#include "flotilla/env/conformance.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "flotilla/core/alloc_count.h"
#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/env/random_run.h"

namespace flotilla {
namespace {

constexpr size_t kGates = 2;  // the first checks, without which the others make no sense
constexpr double kHangSeconds = 10;
constexpr const char* kStepsTogether = "not in worker processes: its envs step all together";

struct Violation {
  std::string what;
};

struct RefusedSettings {
  Error error;
};

void require(bool condition, const std::function<std::string()>& what) {
  if (!condition) throw Violation{what()};
}

// Everything a step leaves behind for one env, byte by byte, with the name of each part.
struct RowImage {
  std::vector<std::byte> bytes;
  std::vector<std::pair<const char*, size_t>> parts;  // name, first byte

  void add(const char* name, const void* data, size_t size) {
    parts.emplace_back(name, bytes.size());
    const auto* from = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + size);
  }

  const char* first_difference(const RowImage& other) const {
    const char* name = "the shape of the row";
    for (size_t i = 0, part = 0; i < std::min(bytes.size(), other.bytes.size()); ++i) {
      while (part < parts.size() && parts[part].second <= i) name = parts[part++].first;
      if (bytes[i] != other.bytes[i]) return name;
    }
    return bytes.size() == other.bytes.size() ? nullptr : name;
  }
};

RowImage image_of(const EnvSpec& spec, const StepView& view, int env) {
  const auto i = static_cast<size_t>(env);
  const size_t obs_bytes = spec.obs.row_bytes(), mask_size = spec.action.mask_size();
  RowImage image;
  image.add("obs", view.obs + i * obs_bytes, obs_bytes);
  image.add("reward", view.reward + i, sizeof(float));
  image.add("terminated", view.terminated + i, 1);
  image.add("truncated", view.truncated + i, 1);
  image.add("valid", view.valid + i, 1);
  if (view.mask != nullptr) image.add("mask", view.mask + i * mask_size, mask_size);
  if (view.advice != nullptr) image.add("advice", view.advice + i * mask_size, mask_size);
  if (view.terminated[i] != 0 || view.truncated[i] != 0) {
    image.add("final_obs", view.final_obs + i * obs_bytes, obs_bytes);
    image.add("episode_return", view.episode_return + i, sizeof(float));
    image.add("episode_length", view.episode_length + i, sizeof(int32_t));
    const size_t metrics = spec.metrics.size();
    image.add("metrics", view.metrics + i * metrics, metrics * sizeof(float));
  }
  return image;
}

using Trajectory = std::vector<std::vector<RowImage>>;  // [step][env]

Trajectory record(RandomRun& run, int steps) {
  Trajectory trajectory;
  for (int t = 0; t < steps; ++t) {
    run.step();
    auto& rows = trajectory.emplace_back();
    for (int i = 0; i < run.vec().num_envs(); ++i) {
      rows.push_back(image_of(run.vec().spec(), run.view(), i));
    }
  }
  return trajectory;
}

// Compares the envs both have.
void require_equal(const Trajectory& expected, const Trajectory& actual, const std::string& who) {
  require(expected.size() == actual.size(), [&] { return who + ": another number of steps"; });
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t i = 0; i < std::min(expected[t].size(), actual[t].size()); ++i) {
      const char* part = expected[t][i].first_difference(actual[t][i]);
      require(part == nullptr,
              [&] { return fmt::format("{}: {} of env {} differs at step {}", who, part, i, t); });
    }
  }
}

class Kit {
 public:
  Kit(const EnvType& type, const Config& config, const ConformanceOptions& options)
      : type_(type), config_(config), options_(options) {}

  // In a worker process, where a crash or a hang costs nothing.
  std::string survives() {
    if (type_.batched) return kStepsTogether;
    VecOptions options = vec(Backend::kProcesses, 1);
    options.step_timeout_s = kHangSeconds;
    try {
      trajectory(options);
    } catch (const EnvFailure& failure) {
      // Exceptions are for the other checks.
      if (!failure.report().cause.starts_with("threw")) throw;
    }
    return fmt::format("{} steps in a worker process", options_.steps);
  }

  std::string spec() {
    const EnvSpec spec = accepted_spec();
    spec.validate();
    return fmt::format("{} observation elements, {}", spec.obs.elements(), spec.action.describe());
  }

  std::string bounds() {
    RandomRun run(type_, config_, vec(Backend::kSerial, 1), options_.seed);
    const EnvSpec& spec = run.vec().spec();
    for (int t = 0; t < options_.steps; ++t) {
      run.step();
      for (int i = 0; i < options_.num_envs; ++i) check_row(spec, run.view(), i, t);
    }
    return fmt::format("{} rows finite and within bounds", options_.steps * options_.num_envs);
  }

  // Rows that start as other bytes must end as the same: nothing is left as it was.
  std::string written_whole() {
    RandomRun zeros(type_, config_, vec(Backend::kSerial, 1), options_.seed);
    RandomRun ones(type_, config_, vec(Backend::kSerial, 1), options_.seed);
    const EnvSpec& spec = zeros.vec().spec();
    for (int t = 0; t < options_.steps; ++t) {
      step_over(zeros, 0x00);
      step_over(ones, 0xFF);
      for (int i = 0; i < options_.num_envs; ++i) {
        const char* part =
            image_of(spec, zeros.view(), i).first_difference(image_of(spec, ones.view(), i));
        require(part == nullptr, [&] {
          return fmt::format("env {}, step {}: a part of {} is not written", i, t, part);
        });
      }
    }
    return "every element of every row";
  }

  std::string statistics() {
    RandomRun run(type_, config_, vec(Backend::kSerial, 1), options_.seed);
    std::vector<double> sum(static_cast<size_t>(options_.num_envs));
    std::vector<int> length(sum.size());
    int ended = 0;
    for (int t = 0; t < options_.steps; ++t) {
      run.step();
      const StepView& v = run.view();
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += static_cast<double>(v.reward[i]);
        ++length[i];
        if (v.terminated[i] == 0 && v.truncated[i] == 0) continue;
        require(v.episode_length[i] == length[i], [&] {
          return fmt::format("episode of {} steps reported as {}", length[i], v.episode_length[i]);
        });
        require(v.episode_return[i] == static_cast<float>(sum[i]), [&] {
          return fmt::format("episode return {} reported as {}", sum[i], v.episode_return[i]);
        });
        sum[i] = 0;
        length[i] = 0;
        ++ended;
      }
    }
    return fmt::format("{} ended episodes", ended);
  }

  std::string deterministic() {
    const Trajectory& first = reference();
    require_equal(first, trajectory(vec(Backend::kSerial, 1)), "a second run");
    VecOptions fewer = vec(Backend::kSerial, 1);
    fewer.num_envs = 3;
    require_equal(first, trajectory(fewer), "the same envs in a smaller batch");
    return "same seed, same trajectory; independent of the other envs";
  }

  std::string threads() {
    for (const int count : {1, 2, 3, 5}) {
      require_equal(reference(), trajectory(vec(Backend::kThreads, count)),
                    fmt::format("{} threads", count));
    }
    if (type_.batched) return "1, 2, 3, 5 threads equal serial";
    VecOptions halves = vec(Backend::kThreads, 2);
    halves.groups = 2;
    require_equal(reference(), trajectory(halves), "2 threads, 2 groups");
    return "1, 2, 3, 5 threads equal serial, and 2 groups";
  }

  std::string processes() {
    if (type_.batched) return kStepsTogether;
    for (const int count : {1, 2, 3}) {
      require_equal(reference(), trajectory(vec(Backend::kProcesses, count)),
                    fmt::format("{} workers", count));
    }
    VecOptions halves = vec(Backend::kProcesses, 2);
    halves.groups = 2;
    halves.start_method = StartMethod::kFork;
    require_equal(reference(), trajectory(halves), "2 forked workers, 2 groups");
    return "1, 2, 3 workers, spawned and forked, equal serial";
  }

  std::string save_and_load() {
    // Past the first episodes, and not at a boundary of all envs at once.
    const int before = options_.steps / 3, after = options_.steps / 3;
    RandomRun original(type_, config_, vec(Backend::kSerial, 1), options_.seed);
    record(original, before);
    Writer writer;
    original.save(writer);
    const RowImage at_save = image_of(original.vec().spec(), original.view(), 0);
    const Trajectory expected = record(original, after);
    for (const Backend backend : {Backend::kSerial, Backend::kThreads, Backend::kProcesses}) {
      if (type_.batched && backend == Backend::kProcesses) continue;
      RandomRun restored(type_, config_, vec(backend, 2), options_.seed + 1);
      Reader reader(writer.buffer(), "saved state");
      restored.load(reader);
      const size_t obs_bytes = restored.vec().spec().obs.row_bytes();
      require(std::memcmp(at_save.bytes.data(), restored.view().obs, obs_bytes) == 0,
              [] { return std::string("the observation after load() is another one"); });
      require_equal(expected, record(restored, after), "a restored copy");
    }
    return fmt::format("restored at step {} in every back end it has", before);
  }

  std::string time_limit() {
    for (const int limit : {1, 3}) {
      VecOptions limited = vec(Backend::kSerial, 1), unlimited = limited;
      limited.time_limit = limit;
      unlimited.time_limit = std::numeric_limits<int>::max();
      RandomRun cut(type_, config_, limited, options_.seed);
      RandomRun whole(type_, config_, unlimited, options_.seed);
      check_cut(cut, whole, limit);
    }
    return "truncated at the limit, final_obs is the last observation";
  }

  std::string mask() {
    RandomRun run(type_, config_, vec(Backend::kSerial, 1), options_.seed);
    const EnvSpec& spec = run.vec().spec();
    if (!spec.masked()) return "no mask";
    const auto n = static_cast<size_t>(options_.num_envs);
    std::vector<uint8_t> both(n * spec.action.mask_size());
    for (int t = 0; t < options_.steps; ++t) {
      const StepView& v = run.view();
      for (const uint8_t* flags : {v.mask, v.advice}) {
        if (flags != nullptr) check_choices(spec, flags, t);
      }
      check_choices(spec, open_choices(spec, v, {0, options_.num_envs}, both.data()), t);
      run.step();
    }
    return "always a legal choice, and legal choices are accepted";
  }

  std::string allocations() {
    if (!can_count_allocations()) return why_not_counted();
    for (const Backend backend : {Backend::kSerial, Backend::kThreads}) {
      RandomRun run(type_, config_, vec(backend, 2), options_.seed);
      run.run(10);
      const uint64_t before = allocation_count();
      run.run(static_cast<uint64_t>(options_.steps));
      const uint64_t made = allocation_count() - before;
      require(made == 0,
              [&] { return fmt::format("{} allocations in {} steps", made, options_.steps); });
    }
    return fmt::format("none in {} steps, serial and threads", options_.steps);
  }

 private:
  EnvSpec accepted_spec() const {
    try {
      return type_.spec(config_);
    } catch (const SpecError&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kUsage) throw RefusedSettings{error};
      throw;
    }
  }

  VecOptions vec(Backend backend, int lanes) const {
    VecOptions options;
    options.backend = backend;
    options.num_envs = options_.num_envs;
    options.threads = lanes;
    options.workers = lanes;
    return options;
  }

  Trajectory trajectory(const VecOptions& options) const {
    RandomRun run(type_, config_, options, options_.seed);
    return record(run, options_.steps);
  }

  const Trajectory& reference() {
    if (reference_.empty()) reference_ = trajectory(vec(Backend::kSerial, 1));
    return reference_;
  }

  // One step whose rows hold `byte` all over before the envs write them.
  void step_over(RandomRun& run, int byte) const {
    const StepView& v = run.view();
    const EnvSpec& spec = run.vec().spec();
    const auto n = static_cast<size_t>(options_.num_envs);
    run.step([&] {
      std::memset(v.obs, byte, n * spec.obs.row_bytes());
      std::memset(v.final_obs, byte, n * spec.obs.row_bytes());
      std::memset(v.metrics, byte, n * spec.metrics.size() * sizeof(float));
      for (uint8_t* choices : {v.mask, v.advice}) {
        if (choices != nullptr) std::memset(choices, byte, n * spec.action.mask_size());
      }
    });
  }

  // Flags of 0 and 1, and one choice open in each dimension of every env.
  void check_choices(const EnvSpec& spec, const uint8_t* at, int step) const {
    for (int env = 0; env < options_.num_envs; ++env) {
      for (const int choices : spec.action.choices) {
        const auto open = std::count(at, at + choices, uint8_t{1});
        const auto closed = std::count(at, at + choices, uint8_t{0});
        require(open > 0,
                [&] { return fmt::format("env {}, step {}: no legal choice", env, step); });
        require(open + closed == choices,
                [&] { return fmt::format("env {}, step {}: a flag is not 0 or 1", env, step); });
        at += choices;
      }
    }
  }

  static void check_row(const EnvSpec& spec, const StepView& v, int env, int step) {
    const auto i = static_cast<size_t>(env);
    check_obs(spec, v.obs + i * spec.obs.row_bytes(), "obs", env, step);
    require(v.reward[i] >= spec.reward_low && v.reward[i] <= spec.reward_high, [&] {
      return fmt::format("env {}, step {}: reward {} is outside [{}, {}]", env, step, v.reward[i],
                         spec.reward_low, spec.reward_high);
    });
    if (v.terminated[i] == 0 && v.truncated[i] == 0) return;
    check_obs(spec, v.final_obs + i * spec.obs.row_bytes(), "final_obs", env, step);
    if (v.valid[i] == 0) return;  // metrics may have no value: NaN
    for (size_t m = 0; m < spec.metrics.size(); ++m) {
      require(std::isfinite(v.metrics[i * spec.metrics.size() + m]), [&] {
        return fmt::format("env {}, step {}: metric {} is not finite", env, step, spec.metrics[m]);
      });
    }
  }

  static void check_obs(const EnvSpec& spec, const std::byte* row, const char* name, int env,
                        int step) {
    if (spec.obs.type == ObsType::kUint8) return;  // every byte is within bounds
    const auto* values = reinterpret_cast<const float*>(row);
    for (size_t k = 0; k < spec.obs.elements(); ++k) {
      const bool good =
          std::isfinite(values[k]) && values[k] >= spec.obs.low[k] && values[k] <= spec.obs.high[k];
      require(good, [&] {
        return fmt::format("env {}, step {}: {}[{}] = {} is outside [{}, {}]", env, step, name, k,
                           values[k], spec.obs.low[k], spec.obs.high[k]);
      });
    }
  }

  // The first `limit` steps of both runs are the same; then one is cut and must show as its final
  // observation what the other one simply observes.
  void check_cut(RandomRun& cut, RandomRun& whole, int limit) const {
    const auto n = static_cast<size_t>(options_.num_envs);
    const size_t obs_bytes = cut.vec().spec().obs.row_bytes();
    std::vector<bool> ended_before(n);
    for (int t = 0; t < limit; ++t) {
      cut.step();
      whole.step();
      for (size_t i = 0; i < n; ++i) {
        const bool by_itself = whole.view().terminated[i] != 0 || whole.view().truncated[i] != 0;
        if (t + 1 == limit && !by_itself && !ended_before[i]) {
          require(cut.view().truncated[i] != 0 && cut.view().terminated[i] == 0, [&] {
            return fmt::format("env {} is not flagged truncated after {} steps", i, limit);
          });
          require(std::memcmp(cut.view().final_obs + i * obs_bytes,
                              whole.view().obs + i * obs_bytes, obs_bytes) == 0,
                  [&] { return fmt::format("final_obs of env {} is not its last", i); });
        }
        ended_before[i] = ended_before[i] || by_itself;
      }
    }
  }

  const EnvType& type_;
  const Config& config_;
  const ConformanceOptions options_;
  Trajectory reference_;
};

}  // namespace

std::vector<CheckResult> check_env(const EnvType& type, const Config& config,
                                   const ConformanceOptions& options,
                                   const std::function<void(const CheckResult&)>& show) {
  Kit kit(type, config, options);
  const std::vector<std::pair<const char*, std::string (Kit::*)()>> checks = {
      {"spec", &Kit::spec},
      {"survives", &Kit::survives},
      {"bounds", &Kit::bounds},
      {"written whole", &Kit::written_whole},
      {"statistics", &Kit::statistics},
      {"deterministic", &Kit::deterministic},
      {"time limit", &Kit::time_limit},
      {"mask", &Kit::mask},
      {"no allocation", &Kit::allocations},
      {"threads", &Kit::threads},
      {"processes", &Kit::processes},
      {"save and load", &Kit::save_and_load}};
  std::vector<CheckResult> results;
  for (const auto& [name, check] : checks) {
    stop_if_interrupted();
    try {
      results.push_back({name, true, (kit.*check)()});
    } catch (const Violation& violation) {
      results.push_back({name, false, violation.what});
    } catch (const RefusedSettings& refused) {
      throw refused.error;
    } catch (const std::exception& error) {
      if (is_refusal(error)) throw as_error(error);  // no fault of the environment
      results.push_back({name, false, error.what()});
    }
    if (show) show(results.back());
    if (results.size() <= kGates && !results.back().passed) break;
  }
  return results;
}

}  // namespace flotilla
