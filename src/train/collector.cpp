#include "flotilla/train/collector.h"

#include <fmt/format.h>

#include <cstring>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"

namespace flotilla {

Collector::Collector(VecEnv& vec, Rollout& rollout, const ActingPolicy& policy,
                     const BatchNeeds& needs, uint64_t seed)
    : vec_(vec),
      rollout_(rollout),
      policy_(policy),
      needs_(needs),
      seed_(seed),
      threads_(vec.team() == nullptr ? 1 : vec.team()->threads()) {}

void Collector::require_choices(int step, Span envs) const {
  const EnvSpec& spec = vec_.spec();
  const uint8_t* mask = rollout_.mask + rollout_.row(step, envs.begin) * spec.action.mask_size();
  for (int env = envs.begin; env < envs.end; ++env) {
    for (const int choices : spec.action.choices) {
      if (std::memchr(mask, 1, static_cast<size_t>(choices)) == nullptr) {
        throw Error(
            ErrorCode::kEnvironment,
            fmt::format("env {} of '{}': no choice is legal at step {}", vec_.first_env() + env,
                        spec.name, steps_ + static_cast<uint64_t>(step)));
      }
      mask += choices;
    }
  }
}

void Collector::act(int part, int step, Span envs) {
  const uint64_t start = part == 0 ? now_ns() : 0;
  rollout_.open_choices(step, envs);
  if (rollout_.mask != nullptr) require_choices(step, envs);
  const EnvSpec& spec = vec_.spec();
  const size_t row = rollout_.row(step, envs.begin);
  const size_t action_bytes = spec.action.dims() * sizeof(int32_t);
  const auto env = static_cast<size_t>(envs.begin);
  const ActRows rows{
      .count = envs.size(),
      .first_env = vec_.first_env() + envs.begin,
      .obs = rollout_.obs + row * spec.obs.row_bytes(),
      .mask = rollout_.mask == nullptr ? nullptr : rollout_.mask + row * spec.action.mask_size(),
      .action = rollout_.actions(step) + env * action_bytes,
      .latent = rollout_.latent + row * action_bytes,
      .logprob = needs_.logprob ? rollout_.logprob + row : nullptr,
      .value = needs_.values ? rollout_.value + row : nullptr};
  policy_.act(part, rows,
              {.seed = seed_, .step = steps_ + static_cast<uint64_t>(step), .epsilon = epsilon_});
  if (part == 0) infer_ns_ += now_ns() - start;
}

void Collector::begin(int group, int step) {
  turns_[group] = {this, step};
  const auto act_for = [](void* context, int part, Span envs) {
    const Turn& turn = *static_cast<const Turn*>(context);
    turn.collector->act(part, turn.step, envs);
  };
  Actor actor{act_for, &turns_[group]};
  const Span envs = vec_.group(group);
  if (envs.size() / threads_ < policy_.rows_per_part()) {
    act(0, step, envs);
    actor = {};
  }
  vec_.begin(group, {rollout_.actions(step)}, rollout_.view(step), actor);
}

void Collector::collect(float epsilon) {
  const uint64_t start = now_ns();
  epsilon_ = epsilon;
  rollout_.final_obs.clear();
  rollout_.final_rows.clear();
  const int groups = vec_.groups(), horizon = rollout_.horizon();
  const auto finish = [&](int group, int step) {
    vec_.wait(group);
    rollout_.harvest(step, vec_.group(group));
  };
  for (int g = 0; g < groups; ++g) begin(g, 0);
  for (int step = 1; step < horizon; ++step) {
    for (int g = 0; g < groups; ++g) {
      finish(g, step - 1);
      begin(g, step);
    }
  }
  for (int g = 0; g < groups; ++g) finish(g, horizon - 1);
  steps_ += static_cast<uint64_t>(horizon);
  if (needs_.values) value_ends();
  total_ns_ += now_ns() - start;
}

void Collector::value_ends() {
  const uint64_t start = now_ns();
  const size_t last = rollout_.row(rollout_.horizon(), 0);
  policy_.value(0, rollout_.obs + last * vec_.spec().obs.row_bytes(), rollout_.num_envs(),
                rollout_.last_value);
  final_values_.resize(rollout_.final_rows.size());
  policy_.value(0, rollout_.final_obs.data(), static_cast<int>(final_values_.size()),
                final_values_.data());
  for (size_t i = 0; i < final_values_.size(); ++i) {
    rollout_.final_value[rollout_.final_rows[i]] = final_values_[i];
  }
  infer_ns_ += now_ns() - start;
}

Collector::Times Collector::take_times() {
  const Times times{static_cast<double>(infer_ns_) * 1e-9, static_cast<double>(total_ns_) * 1e-9};
  infer_ns_ = total_ns_ = 0;
  return times;
}

}  // namespace flotilla
