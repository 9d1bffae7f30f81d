#include "flotilla/train/acting.h"

#include <fmt/format.h>

#include <cstring>

#include "flotilla/core/error.h"

namespace flotilla {

void Acting::require_choices(const Rollout& rollout, Span envs, int step,
                             uint64_t first_step) const {
  const EnvSpec& spec = vec_.spec();
  const uint8_t* mask = rollout.mask + rollout.row(step, envs.begin) * spec.action.mask_size();
  for (int env = envs.begin; env < envs.end; ++env) {
    for (const int choices : spec.action.choices) {
      if (std::memchr(mask, 1, static_cast<size_t>(choices)) == nullptr) {
        throw Error(
            ErrorCode::kEnvironment,
            fmt::format("env {} of '{}': no choice is legal at step {}", vec_.first_env() + env,
                        spec.name, first_step + static_cast<uint64_t>(step)));
      }
      mask += choices;
    }
  }
}

void Acting::act(const ActingPolicy& policy, int part, const Rollout& rollout, Span envs, int step,
                 uint64_t first_step, float epsilon) const {
  rollout.open_choices(step, envs);
  if (rollout.mask != nullptr) require_choices(rollout, envs, step, first_step);
  const EnvSpec& spec = vec_.spec();
  const size_t row = rollout.row(step, envs.begin);
  const size_t action_bytes = spec.action.dims() * sizeof(int32_t);
  const auto env = static_cast<size_t>(envs.begin);
  const ActRows rows{
      .count = envs.size(),
      .first_env = vec_.first_env() + envs.begin,
      .obs = rollout.obs + row * spec.obs.row_bytes(),
      .mask = rollout.mask == nullptr ? nullptr : rollout.mask + row * spec.action.mask_size(),
      .action = rollout.actions(step) + env * action_bytes,
      .latent = rollout.latent + row * action_bytes,
      .logprob = needs_.logprob ? rollout.logprob + row : nullptr,
      .value = needs_.values ? rollout.value + row : nullptr};
  policy.act(part, rows,
             {.seed = seed_, .step = first_step + static_cast<uint64_t>(step), .epsilon = epsilon});
}

void Acting::value_cuts(const ActingPolicy& policy, int part, Rollout& rollout, int rollout_part,
                        std::vector<float>& values) const {
  const Rollout::Cuts& cuts = rollout.cuts(rollout_part);
  values.resize(cuts.rows.size());
  policy.value(part, cuts.obs.data(), static_cast<int>(values.size()), values.data());
  for (size_t i = 0; i < values.size(); ++i) rollout.final_value[cuts.rows[i]] = values[i];
}

void Acting::value_last(const ActingPolicy& policy, int part, const Rollout& rollout,
                        Span envs) const {
  const size_t last = rollout.row(rollout.horizon(), envs.begin);
  policy.value(part, rollout.obs + last * vec_.spec().obs.row_bytes(), envs.size(),
               rollout.last_value + envs.begin);
}

}  // namespace flotilla
