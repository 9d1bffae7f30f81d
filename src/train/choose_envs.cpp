#include "flotilla/train/choose_envs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/train/collector.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"

namespace flotilla {
namespace {

constexpr double kMuchFaster = 1.15;  // for twice as many: fewer updates are made of as many steps
constexpr int64_t kLeastUpdates = 10;
constexpr int kParts = 10;  // of the time, one for each number
constexpr int kShortHorizon = 2;
constexpr double kBriefly_s = 0.005;
constexpr const char* kTooFewUpdates = "more would leave it few updates";

// As the trainer needs it; the learner makes copies of most of it.
uint64_t rollout_bytes(const RunConfig& run) {
  ArenaLayout layout;
  const Rollout rollout(layout, run.spec, run.vec.num_envs, run.n_steps,
                        run.asynchronous() ? run.vec.groups : run.threads);
  const int rollouts = run.asynchronous() ? run.async.ring : 1;
  return 2 * static_cast<uint64_t>(rollouts) * layout.bytes();
}

// Of so many more than were tried, if any were.
uint64_t expected_bytes(const std::vector<EnvsTried>& tried, const RunConfig& run) {
  uint64_t envs = 0;
  if (!tried.empty()) {
    const EnvsTried &first = tried.front(), &last = tried.back();
    const bool many = tried.size() > 1;  // then what does not depend on their number is known
    const uint64_t base = many ? std::min(first.grown, last.grown) : 0;
    const auto of = static_cast<uint64_t>(last.num_envs - (many ? first.num_envs : 0));
    const auto more = static_cast<uint64_t>(run.vec.num_envs - last.num_envs);
    envs = last.grown + more * ((last.grown - base) / of);
  }
  return envs + rollout_bytes(run);
}

// So that a run with few steps or episodes learns from more than one rollout.
int64_t most_envs(const RunConfig& run) {
  const RunLimits& limits = run.limits;
  int64_t most = kMaxEnvs;
  if (limits.steps > 0) most = std::min(most, limits.steps / run.n_steps / kLeastUpdates);
  if (limits.episodes > 0) most = std::min(most, limits.episodes / kLeastUpdates);
  return most;
}

// By how much this process and its workers grow; of the latter it is seen by what is left alone.
class Growth {
 public:
  explicit Growth(const RunConfig& run) : elsewhere_(run.vec.in_workers()), before_(used()) {}
  uint64_t grown(uint64_t without) const {
    const uint64_t now = used(), known = before_ + without;
    return now > known ? now - known : 0;
  }

 private:
  uint64_t used() const {
    constexpr uint64_t kAll = uint64_t{1} << 62U;
    return elsewhere_ ? kAll - std::min(kAll, available_memory_bytes()) : resident_bytes();
  }
  const bool elsewhere_;
  const uint64_t before_;
};

// The best of several times, which other programs disturb least.
class Stretch {
 public:
  // From now on, also of what has to be made for it.
  explicit Stretch(double seconds) : seconds_(seconds) {}

  template <class Work>  // of so many steps
  EnvsTried measured(int num_envs, uint64_t grown, int64_t steps, const Work& work) const {
    const double made_s = seconds_since(start_);
    double least_s = std::numeric_limits<double>::infinity();
    do {
      stop_if_interrupted();
      const uint64_t begin = now_ns();
      work();
      least_s = std::min(least_s, seconds_since(begin));
    } while (seconds_since(start_) < seconds_);
    return {.num_envs = num_envs,
            .steps_per_s = static_cast<double>(steps) / std::max(least_s, 1e-9),
            .grown = grown,
            .cost_s = made_s + least_s};
  }

 private:
  const uint64_t start_ = now_ns();
  const double seconds_;
};

// Envs and policy of a run with a rollout of its own, as a trainer has them.
class Probe {
 public:
  Probe(const RunConfig& run, int horizon) : steps_(int64_t{run.vec.num_envs} * horizon) {
    VecOptions vec = run.vec;
    vec.crash_dir = {};
    if (run.asynchronous()) {  // the same envs, without running ahead
      vec.backend = vec.in_workers() ? Backend::kProcesses : Backend::kThreads;
      vec.groups = 1;
    }
    ArenaLayout layout;
    rollout_ = std::make_unique<Rollout>(layout, run.spec, vec.num_envs, horizon, run.threads);
    policy_ = make_policy(run.network, {.kind = run.policy,
                                        .device = run.device,
                                        .parts = run.threads,
                                        .seed = run.seed,
                                        .factory = run.policy_factory});
    vec_ = make_vec_env(run.type, run.env_config, vec, layout);
    rollout_->attach(vec_->arena());
    if (vec_->team() == nullptr) pool_ = std::make_unique<ThreadPool>(run.threads);
    collector_ =
        std::make_unique<Collector>(*vec_, *rollout_, *policy_, run.algorithm.needs, run.seed,
                                    pool_ != nullptr ? pool_.get() : vec_->team());
    collector_->reset(run.env_seed);
    collect();  // memory is touched, threads and workers are up
  }

  void collect() {
    collector_->collect(0);
    rollout_->take_episodes();
  }
  int64_t steps() const { return steps_; }  // of a collect()
  uint64_t own_bytes() const { return vec_->arena().bytes(); }

 private:
  const int64_t steps_;
  std::unique_ptr<Rollout> rollout_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<VecEnv> vec_;  // last, as in a trainer
};

}  // namespace

bool take_auto_envs(std::vector<std::string>& settings) {
  const Schema schema = RunConfig::vec_schema();
  const auto removed = std::erase_if(settings, [&schema](const std::string& setting) {
    const size_t equals = setting.find('=');
    if (equals == setting.npos || setting.substr(equals + 1) != kAutoEnvs) return false;
    const Key* key = schema.find(setting.substr(0, equals));
    return key != nullptr && key->name == "num_envs";
  });
  return removed > 0;
}

std::string EnvsChoice::text() const {
  const std::string others = tried.size() <= 1 ? std::string()
                                               : fmt::format(" of {} to {}", tried.front().num_envs,
                                                             tried.back().num_envs);
  return fmt::format("num_envs: {}{} (tried in {:.1f} s: {})", num_envs, others, took_s, end);
}

EnvsChooser::EnvsChooser(const Registry& registry, const Algorithms& algorithms,
                         ConfigWith config_with, PolicyFactory policy_factory)
    : registry_(registry),
      algorithms_(algorithms),
      config_with_(std::move(config_with)),
      policy_factory_(std::move(policy_factory)) {}

EnvsChooser::RunPtr EnvsChooser::run_with(int num_envs) const {
  const Config config = config_with_(num_envs);
  auto run = std::make_unique<RunConfig>(env_of(registry_, config), config, algorithms_);
  run->policy_factory = policy_factory_;
  return run;
}

// Settings may ask for more, such as the rows of a minibatch, or for less.
EnvsChooser::RunPtr EnvsChooser::run_if_allowed(int64_t num_envs) const {
  if (num_envs < 1 || num_envs > kMaxEnvs) return nullptr;
  try {
    return run_with(static_cast<int>(num_envs));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    return nullptr;
  }
}

// As many as the recipe has, or half of them, and so on. `end` says why there are fewer.
EnvsChooser::RunPtr EnvsChooser::first_run(const EnvsRoom& room, std::string& end) const {
  RunPtr run = run_with(static_cast<int>(config_with_(std::nullopt).get_integer("num_envs")));
  const int unit = run->blocks() * run->vec.replicas;  // of which all numbers are multiples
  for (;;) {
    const uint64_t bytes = expected_bytes({}, *run);
    const bool too_large = bytes > room.memory;
    if (!too_large && run->vec.num_envs <= most_envs(*run)) return run;
    RunPtr smaller = run_if_allowed(run->vec.num_envs / 2 / unit * unit);
    if (smaller == nullptr && !too_large) return run;
    if (smaller == nullptr) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("num_envs: {} need {} of memory, of which {} may be used: lower "
                      "n_steps, or give a number instead of {}",
                      run->vec.num_envs, human_bytes(bytes), human_bytes(room.memory), kAutoEnvs));
    }
    end = too_large ? "more would need " + human_bytes(bytes) : kTooFewUpdates;
    run = std::move(smaller);
  }
}

EnvsTried EnvsChooser::measure(const RunConfig& run, double seconds) {
  if (!horizon_) {
    const Stretch stretch(0);
    const Growth memory(run);
    const int few = std::min(kShortHorizon, run.n_steps);
    Probe probe(run, few);
    const EnvsTried tried = stretch.measured(run.vec.num_envs, memory.grown(probe.own_bytes()),
                                             probe.steps(), [&] { probe.collect(); });
    const double most = kBriefly_s * tried.steps_per_s / run.vec.num_envs;  // steps of each env
    horizon_ = most >= run.n_steps ? 0 : std::max(few, static_cast<int>(most));
    if (*horizon_ == few) return tried;
  }
  const Stretch stretch(seconds);
  const Growth memory(run);
  if (*horizon_ > 0) {
    Probe probe(run, std::min(*horizon_, run.n_steps));
    return stretch.measured(run.vec.num_envs, memory.grown(probe.own_bytes()), probe.steps(),
                            [&] { probe.collect(); });
  }
  RunConfig trial = run;
  trial.vec.crash_dir = {};
  Trainer trainer(trial);
  trainer.iterate();  // memory is touched, threads and workers are up
  return stretch.measured(run.vec.num_envs, memory.grown(trainer.rollout_bytes()),
                          int64_t{run.vec.num_envs} * run.n_steps, [&] { trainer.iterate(); });
}

EnvsChoice EnvsChooser::choose(const EnvsRoom& room) {
  const uint64_t start = now_ns();
  EnvsChoice choice;
  std::vector<EnvsTried>& tried = choice.tried;
  const double part_s = room.seconds / kParts;
  const RunPtr first = first_run(room, choice.end);
  choice.num_envs = first->vec.num_envs;
  if (seconds_since(start) > room.seconds) {  // environments that read much, say
    choice.end = "it takes long to make";
  } else {
    tried.push_back(measure(*first, part_s));
  }
  while (choice.end.empty()) {
    const EnvsTried last = tried.back();
    if (seconds_since(start) + 2 * last.cost_s > room.seconds) {
      choice.end = "more take too long to try";
      break;
    }
    const RunPtr run = run_if_allowed(int64_t{2} * last.num_envs);
    if (run == nullptr) {
      choice.end = "the settings allow no more";
    } else if (run->vec.num_envs > most_envs(*run)) {
      choice.end = kTooFewUpdates;
    } else if (const uint64_t bytes = expected_bytes(tried, *run); bytes > room.memory) {
      choice.end = "more would need " + human_bytes(bytes);
    } else {
      tried.push_back(measure(*run, part_s));
      if (tried.back().steps_per_s < kMuchFaster * last.steps_per_s) {
        choice.end = "more are hardly faster";
      } else {
        choice.num_envs = run->vec.num_envs;
      }
    }
  }
  choice.took_s = seconds_since(start);
  return choice;
}

}  // namespace flotilla
