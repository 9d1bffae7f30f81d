#include "flotilla/train/rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "flotilla/core/error.h"

namespace flotilla {

void PresentMeans::add(std::span<const float> numbers, int64_t cluster) {
  if (total_.empty()) return;
  std::vector<Sum>& sums = clusters_.try_emplace(cluster, total_.size()).first->second;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i])) continue;
    for (Sum* each : {&total_[i], &sums[i]}) {
      each->sum += static_cast<double>(numbers[i]);
      ++each->count;
    }
  }
}

std::vector<double> PresentMeans::means() const {
  std::vector<double> means;
  for (const Sum& total : total_) means.push_back(total.sum / total.count);
  return means;
}

// The cluster-robust variance of a mean (Liang and Zeger, "Longitudinal data analysis using
// generalized linear models", 1986); of clusters of one number each, the usual one.
std::vector<double> PresentMeans::ci95() const {
  constexpr double kNormal = 1.96;
  std::vector<double> halves;
  for (size_t i = 0; i < total_.size(); ++i) {
    const double n = total_[i].count, mean = total_[i].sum / n;
    double squares = 0, clusters = 0;
    for (const auto& [cluster, sums] : clusters_) {
      if (sums[i].count == 0) continue;
      const double distance = sums[i].sum - sums[i].count * mean;
      squares += distance * distance;
      ++clusters;
    }
    const double variance =
        clusters < 2 ? std::nan("") : squares * clusters / (clusters - 1) / (n * n);
    halves.push_back(kNormal * std::sqrt(variance));
  }
  return halves;
}

int64_t EpisodeClusters::next(const Episode& episode) {
  const int64_t before = ended_[static_cast<size_t>(episode.env)]++;
  const int64_t groups = (first_env_ + static_cast<int64_t>(ended_.size())) / replicas_ + 1;
  return before * groups + (first_env_ + episode.env) / replicas_;
}

Rollout::Rollout(ArenaLayout& layout, const EnvSpec& spec, int num_envs, int horizon, int parts)
    : spec_(spec), num_envs_(num_envs), horizon_(horizon), ends_(static_cast<size_t>(parts)) {
  const auto n = static_cast<size_t>(num_envs), rows = static_cast<size_t>(this->rows());
  const size_t action_bytes = spec.action.dims() * sizeof(int32_t);
  obs_id_ = layout.add<std::byte>("obs", 1, (rows + n) * spec.obs.row_bytes());
  actions_id_ = layout.add<std::byte>("actions", 1, rows * action_bytes);
  // The choices of a discrete space are their own latents.
  if (spec.action.is_box()) latent_id_ = layout.add<std::byte>("latent", 1, rows * action_bytes);
  const size_t choices = spec.action.mask_size();
  if (spec.masked()) mask_id_ = layout.add<uint8_t>("mask", 1, (rows + n) * choices);
  if (spec.has_mask && spec.has_advice) {
    legal_id_ = layout.add<uint8_t>("legal", 1, n * choices);
    advice_id_ = layout.add<uint8_t>("advice", 1, n * choices);
  }
  reward_id_ = layout.add<float>("reward", 1, rows);
  logprob_id_ = layout.add<float>("logprob", 1, rows);
  value_id_ = layout.add<float>("value", 1, rows);
  final_value_id_ = layout.add<float>("final_value", 1, rows);
  last_value_id_ = layout.add<float>("last_value", 1, n);
  // One step more than there are: the first observations come with flags of their own.
  terminated_id_ = layout.add<uint8_t>("terminated", 1, rows + n);
  truncated_id_ = layout.add<uint8_t>("truncated", 1, rows + n);
  valid_id_ = layout.add<uint8_t>("valid", 1, rows + n);
  final_obs_id_ = layout.add<std::byte>("final_obs", 1, n * spec.obs.row_bytes());
  episode_return_id_ = layout.add<float>("episode_return", 1, n);
  episode_length_id_ = layout.add<int32_t>("episode_length", 1, n);
  metrics_id_ = layout.add<float>("metrics", 1, std::max<size_t>(n * spec.metrics.size(), 1));
}

void Rollout::attach(const Arena& arena) {
  obs = arena.view(obs_id_).row(0);
  actions_ = arena.view(actions_id_).row(0);
  latent = spec_.action.is_box() ? arena.view(latent_id_).row(0) : actions_;
  mask = spec_.masked() ? arena.view(mask_id_).row(0) : nullptr;
  if (spec_.has_mask && spec_.has_advice) {
    legal_ = arena.view(legal_id_).row(0);
    advice_ = arena.view(advice_id_).row(0);
  }
  reward = arena.view(reward_id_).row(0);
  logprob = arena.view(logprob_id_).row(0);
  value = arena.view(value_id_).row(0);
  final_value = arena.view(final_value_id_).row(0);
  last_value = arena.view(last_value_id_).row(0);
  terminated = arena.view(terminated_id_).row(0);
  truncated = arena.view(truncated_id_).row(0);
  valid = arena.view(valid_id_).row(0);
  step_final_obs_ = arena.view(final_obs_id_).row(0);
  episode_return_ = arena.view(episode_return_id_).row(0);
  episode_length_ = arena.view(episode_length_id_).row(0);
  metrics_ = arena.view(metrics_id_).row(0);
}

StepView Rollout::view(int step) const {
  const size_t first = row(step, 0), next = row(step + 1, 0);
  const bool both = legal_ != nullptr;
  uint8_t* own = mask == nullptr ? nullptr : mask + next * spec_.action.mask_size();
  return {.obs = obs + next * spec_.obs.row_bytes(),
          .reward = reward + first,
          .terminated = terminated + first,
          .truncated = truncated + first,
          .valid = valid + first,
          .mask = both ? legal_ : (spec_.has_mask ? own : nullptr),
          .advice = both ? advice_ : (spec_.has_advice ? own : nullptr),
          .final_obs = step_final_obs_,
          .episode_return = episode_return_,
          .episode_length = episode_length_,
          .metrics = metrics_};
}

StepView Rollout::first_view() const {
  StepView first = view(0);
  const size_t spare = row(horizon_, 0);
  first.obs = obs;
  if (legal_ == nullptr && spec_.has_mask) first.mask = mask;
  if (legal_ == nullptr && spec_.has_advice) first.advice = mask;
  first.terminated = terminated + spare;
  first.truncated = truncated + spare;
  first.valid = valid + spare;
  return first;
}

void Rollout::open_choices(int step, Span envs) const {
  if (legal_ == nullptr) return;
  const StepView latest{.mask = legal_, .advice = advice_};
  uint8_t* rows = mask + row(step, 0) * spec_.action.mask_size();
  flotilla::open_choices(spec_, latest, envs, rows);
}

std::byte* Rollout::actions(int step) const {
  return actions_ + row(step, 0) * spec_.action.dims() * sizeof(int32_t);
}

void Rollout::carry_over(const Rollout& before, Span envs) {
  const auto n = static_cast<size_t>(envs.size());
  const size_t first = row(0, envs.begin), last = before.row(before.horizon_, envs.begin);
  const size_t obs_bytes = spec_.obs.row_bytes();
  std::memcpy(obs + first * obs_bytes, before.obs + last * obs_bytes, n * obs_bytes);
  if (mask != nullptr) {
    const size_t bytes = spec_.action.mask_size();
    std::memcpy(mask + first * bytes, before.mask + last * bytes, n * bytes);
    if (legal_ != nullptr && &before != this) {
      const size_t at = static_cast<size_t>(envs.begin) * bytes;
      std::memcpy(legal_ + at, before.legal_ + at, n * bytes);
      std::memcpy(advice_ + at, before.advice_ + at, n * bytes);
    }
  }
}

void Rollout::harvest(int step, Span envs, int part) {
  Ends& ends = ends_[static_cast<size_t>(part)];
  const size_t obs_bytes = spec_.obs.row_bytes(), metrics = spec_.metrics.size();
  const auto count = static_cast<size_t>(envs.size());
  const size_t first = row(step, envs.begin);
  const bool none = std::memchr(terminated + first, 1, count) == nullptr &&
                    std::memchr(truncated + first, 1, count) == nullptr;
  if (none) return;
  for (int env = envs.begin; env < envs.end; ++env) {
    const size_t at = row(step, env);
    if (terminated[at] == 0 && truncated[at] == 0) continue;
    const float* own = metrics_ + static_cast<size_t>(env) * metrics;
    ends.episodes.push_back({.step = step,
                             .env = env,
                             .episode_return = episode_return_[env],
                             .length = episode_length_[env],
                             .metrics = {own, own + metrics},
                             .valid = valid[at] != 0});
    if (terminated[at] != 0) continue;
    const std::byte* last = step_final_obs_ + static_cast<size_t>(env) * obs_bytes;
    ends.cuts.rows.push_back(at);
    ends.cuts.obs.insert(ends.cuts.obs.end(), last, last + obs_bytes);
  }
}

std::vector<Episode> Rollout::take_episodes(int part) {
  return std::exchange(ends_[static_cast<size_t>(part)].episodes, {});
}

std::vector<Episode> Rollout::take_episodes() {
  std::vector<Episode> all;
  for (int part = 0; part < parts(); ++part) {
    std::ranges::move(take_episodes(part), std::back_inserter(all));
  }
  std::ranges::sort(all, {}, [](const Episode& e) { return std::pair(e.step, e.env); });
  return all;
}

namespace {

// Bytes of one env at one step of it.
size_t bytes_each(const Rollout& rollout, int steps, std::span<const std::byte> array) {
  return array.size() / (static_cast<size_t>(steps) * static_cast<size_t>(rollout.num_envs()));
}

// In either direction: each(name, bytes, steps) for every array of a complete rollout.
template <class Each>
void for_arrays(const Rollout& rollout, const EnvSpec& spec, const Each& each) {
  const int steps = rollout.horizon();
  const auto array = [&](const char* name, auto* data, int of_steps, size_t count = 1) {
    const auto rows = static_cast<size_t>(of_steps) * static_cast<size_t>(rollout.num_envs());
    each(name, std::as_writable_bytes(std::span(data, rows * count)), of_steps);
  };
  array("obs", rollout.obs, steps + 1, spec.obs.row_bytes());
  array("latent", rollout.latent, steps, spec.action.dims() * sizeof(int32_t));
  if (rollout.mask != nullptr) array("mask", rollout.mask, steps + 1, spec.action.mask_size());
  array("reward", rollout.reward, steps);
  array("logprob", rollout.logprob, steps);
  array("value", rollout.value, steps);
  array("final_value", rollout.final_value, steps);
  array("last_value", rollout.last_value, 1);
  array("terminated", rollout.terminated, steps);
  array("truncated", rollout.truncated, steps);
  array("valid", rollout.valid, steps);
}

void require_flags(std::span<const uint8_t> flags, const char* name) {
  if (std::ranges::all_of(flags, [](uint8_t flag) { return flag <= 1; })) return;
  throw Error(ErrorCode::kData, fmt::format("{}: a flag that is neither 0 nor 1", name));
}

// By the bits, without a way out of the loop: the compiler makes vectors of it.
bool all_finite(std::span<const float> numbers) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;
  for (const float number : numbers) {
    found |= static_cast<uint32_t>((std::bit_cast<uint32_t>(number) & kExponent) == kExponent);
  }
  return found == 0;
}

bool all_finite(std::span<const float> numbers, ThreadPool* pool) {
  constexpr size_t kPiece = 1 << 14;
  const size_t pieces = (numbers.size() + kPiece - 1) / kPiece;
  if (pool == nullptr || pieces <= 1) return all_finite(numbers);
  std::atomic<bool> all{true};
  pool->for_each(static_cast<int>(pieces), [&](int, int i) {
    const size_t first = static_cast<size_t>(i) * kPiece;
    if (!all_finite(numbers.subspan(first, std::min(kPiece, numbers.size() - first)))) all = false;
  });
  return all;
}

void require_numbers(std::span<const float> numbers, const char* name) {
  if (all_finite(numbers)) return;
  throw Error(ErrorCode::kNumeric, fmt::format("{}: a number that is not finite", name));
}

}  // namespace

void save_episode(const Episode& episode, Writer& writer) {
  writer.u64("step", static_cast<uint64_t>(episode.step));
  writer.u64("env", static_cast<uint64_t>(episode.env));
  writer.f64("return", static_cast<double>(episode.episode_return));
  writer.u64("length", static_cast<uint64_t>(episode.length));
  writer.u64("valid", episode.valid ? 1 : 0);
  writer.bytes("metrics", std::as_bytes(std::span(episode.metrics)));
}

Episode load_episode(Reader& reader) {
  const auto number = [&reader](const char* tag) {
    return static_cast<int32_t>(std::min<uint64_t>(reader.u64(tag), INT32_MAX));
  };
  Episode episode;
  episode.step = number("step");
  episode.env = number("env");
  episode.episode_return = static_cast<float>(reader.f64("return"));
  episode.length = static_cast<int32_t>(reader.u64("length"));
  episode.valid = reader.u64("valid") != 0;
  const std::span<const std::byte> metrics = reader.bytes("metrics");
  if (metrics.size() % sizeof(float) != 0) {
    throw Error(ErrorCode::kData, "metrics of an episode that are no numbers");
  }
  episode.metrics.resize(metrics.size() / sizeof(float));
  std::ranges::copy(metrics, std::as_writable_bytes(std::span(episode.metrics)).begin());
  return episode;
}

void Rollout::save(Writer& writer) const {
  for_arrays(*this, spec_,
             [&](const char* name, std::span<std::byte> bytes, int) { writer.bytes(name, bytes); });
  size_t count = 0;
  for (const Ends& ends : ends_) count += ends.episodes.size();
  writer.u64("episodes", count);
  for (const Ends& ends : ends_) {
    for (const Episode& episode : ends.episodes) save_episode(episode, writer);
  }
}

// A kernel takes them for indices.
void Rollout::require_choices() const {
  if (spec_.action.is_box()) return;
  const auto* choice = reinterpret_cast<const int32_t*>(latent);
  for (int64_t i = 0; i < rows(); ++i) {
    for (const int choices : spec_.action.choices) {
      if (*choice < 0 || *choice >= choices) {
        throw Error(ErrorCode::kData, "an action that is not in the space");
      }
      ++choice;
    }
  }
}

void Rollout::load(Reader& reader) {
  for_arrays(*this, spec_, [&](const char* name, std::span<std::byte> bytes, int) {
    reader.bytes_into(name, bytes);
  });
  require_choices();
  const uint64_t count = reader.u64("episodes");
  if (count > static_cast<uint64_t>(rows())) {
    throw Error(ErrorCode::kData, "a rollout with more episodes than steps");
  }
  for (Ends& ends : ends_) ends = {};
  for (uint64_t i = 0; i < count; ++i) {
    const Episode episode = load_episode(reader);
    if (episode.step >= horizon_ || episode.env >= num_envs_ ||
        episode.metrics.size() != spec_.metrics.size()) {
      throw Error(ErrorCode::kData, "an episode of no env or step of its rollout");
    }
    ends_[0].episodes.push_back(episode);
  }
}

void Rollout::take_columns(const Rollout& from, Span envs, int part) {
  std::vector<std::span<std::byte>> sources;
  for_arrays(from, spec_,
             [&](const char*, std::span<std::byte> bytes, int) { sources.push_back(bytes); });
  auto source = sources.begin();
  const auto count = static_cast<size_t>(envs.size());
  for_arrays(*this, spec_, [&](const char*, std::span<std::byte> bytes, int steps) {
    const size_t each = bytes_each(*this, steps, bytes), row = each * count;
    for (int step = 0; step < steps; ++step) {
      std::memcpy(bytes.data() + this->row(step, envs.begin) * each,
                  source->data() + static_cast<size_t>(step) * row, row);
    }
    ++source;
  });
  Ends& ends = ends_[static_cast<size_t>(part)];
  ends = {};
  for (const Ends& other : from.ends_) {
    std::ranges::copy(other.episodes, std::back_inserter(ends.episodes));
  }
  for (Episode& episode : ends.episodes) episode.env += envs.begin;
}

void Rollout::require_open_choices() const {
  const auto* choice = reinterpret_cast<const int32_t*>(latent);
  const uint8_t* open = mask;
  for (int64_t i = 0; i < rows(); ++i) {
    for (const int choices : spec_.action.choices) {
      if (open[*choice++] == 0) throw Error(ErrorCode::kData, "an action that was not open");
      open += choices;
    }
  }
}

void Rollout::require_learnable() const {
  const auto count = static_cast<size_t>(rows());
  require_finite();
  require_numbers({logprob, count}, "logprob");
  require_numbers({value, count}, "value");
  require_numbers({final_value, count}, "final_value");
  require_numbers({last_value, static_cast<size_t>(num_envs_)}, "last_value");
  require_flags({terminated, count}, "terminated");
  require_flags({truncated, count}, "truncated");
  require_flags({valid, count}, "valid");
  if (mask != nullptr) {
    require_flags({mask, (count + static_cast<size_t>(num_envs_)) * spec_.action.mask_size()},
                  "mask");
    require_open_choices();
  }
  if (spec_.action.is_box()) {
    require_numbers({reinterpret_cast<const float*>(latent), count * spec_.action.dims()},
                    "action");
  }
}

Batch Rollout::batch(const BatchNeeds& needs, const float* rewards, float epsilon) const {
  const auto if_needed = [](bool needed, const float* numbers) {
    return needed ? numbers : nullptr;
  };
  return {.trajectory = {.steps = horizon_,
                         .envs = num_envs_,
                         .reward = rewards,
                         .terminated = terminated,
                         .truncated = truncated,
                         .valid = valid,
                         .value = if_needed(needs.values, value),
                         .final_value = if_needed(needs.cut_values, final_value),
                         .last_value = if_needed(needs.values, last_value)},
          .samples = {.obs = obs, .mask = mask, .latent = latent, .epsilon = epsilon},
          .logprob = if_needed(needs.logprob, logprob)};
}

void Rollout::require_finite(int first_env, ThreadPool* pool) const {
  const auto refuse = [&](size_t at, const char* field, float number) {
    const size_t n = static_cast<size_t>(num_envs_);
    throw Error(
        ErrorCode::kNumeric,
        fmt::format("env {} of '{}': {} is {} at step {} of the rollout",
                    static_cast<size_t>(first_env) + at % n, spec_.name, field, number, at / n));
  };
  const auto count = static_cast<size_t>(rows());
  if (!all_finite({reward, count}, pool)) {
    for (size_t i = 0; i < count; ++i) {
      if (valid[i] != 0 && !std::isfinite(reward[i])) refuse(i, "reward", reward[i]);
    }
  }
  if (spec_.obs.type != ObsType::kFloat32) return;
  const size_t elements = spec_.obs.elements();
  const auto* numbers = reinterpret_cast<const float*>(obs);
  const size_t all = (count + static_cast<size_t>(num_envs_)) * elements;
  if (all_finite({numbers, all}, pool)) return;
  for (size_t i = 0; i < all; ++i) {
    if (!std::isfinite(numbers[i])) refuse(i / elements, "observation", numbers[i]);
  }
}

}  // namespace flotilla
