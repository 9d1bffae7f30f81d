#include "flotilla/env/views.h"

namespace flotilla {

StepView StepView::moved(const std::byte* from, std::byte* to) const {
  const auto move = [from, to]<class T>(T* pointer) -> T* {
    if (pointer == nullptr) return nullptr;
    return reinterpret_cast<T*>(to + (reinterpret_cast<const std::byte*>(pointer) - from));
  };
  return {.obs = move(obs),
          .reward = move(reward),
          .terminated = move(terminated),
          .truncated = move(truncated),
          .valid = move(valid),
          .mask = move(mask),
          .advice = move(advice),
          .final_obs = move(final_obs),
          .episode_return = move(episode_return),
          .episode_length = move(episode_length),
          .metrics = move(metrics)};
}

const uint8_t* open_choices(const EnvSpec& spec, const StepView& view, Span envs, uint8_t* both) {
  if (view.mask == nullptr) return view.advice;
  if (view.advice == nullptr) return view.mask;
  const size_t size = spec.action.mask_size();
  const size_t end = static_cast<size_t>(envs.end) * size;
  for (size_t i = static_cast<size_t>(envs.begin) * size; i < end; ++i) {
    both[i] = view.mask[i] & view.advice[i];
  }
  return both;
}

StepFields::StepFields(ArenaLayout& layout, const EnvSpec& spec, int num_envs, int steps) {
  const auto n = static_cast<size_t>(num_envs);
  const auto t = static_cast<size_t>(steps);
  obs_ = layout.add<std::byte>("obs", t, n * spec.obs.row_bytes());
  reward_ = layout.add<float>("reward", t, n);
  terminated_ = layout.add<uint8_t>("terminated", t, n);
  truncated_ = layout.add<uint8_t>("truncated", t, n);
  valid_ = layout.add<uint8_t>("valid", t, n);
  mask_ = layout.add<uint8_t>("mask", spec.has_mask ? t : 0, n * spec.action.mask_size());
  advice_ = layout.add<uint8_t>("advice", spec.has_advice ? t : 0, n * spec.action.mask_size());
  actions_ = layout.add<std::byte>("action", t, n * spec.action.dims() * sizeof(int32_t));
  final_obs_ = layout.add<std::byte>("final_obs", 1, n * spec.obs.row_bytes());
  episode_return_ = layout.add<float>("episode_return", 1, n);
  episode_length_ = layout.add<int32_t>("episode_length", 1, n);
  metrics_ = layout.add<float>("metrics", 1, n * spec.metrics.size());
}

StepView StepFields::view(const Arena& arena, int step) const {
  const auto t = static_cast<size_t>(step);
  return {.obs = arena.view(obs_).row(t),
          .reward = arena.view(reward_).row(t),
          .terminated = arena.view(terminated_).row(t),
          .truncated = arena.view(truncated_).row(t),
          .valid = arena.view(valid_).row(t),
          .mask = mask_.rows > 0 ? arena.view(mask_).row(t) : nullptr,
          .advice = advice_.rows > 0 ? arena.view(advice_).row(t) : nullptr,
          .final_obs = arena.view(final_obs_).row(0),
          .episode_return = arena.view(episode_return_).row(0),
          .episode_length = arena.view(episode_length_).row(0),
          .metrics = arena.view(metrics_).row(0)};
}

std::byte* StepFields::actions(const Arena& arena, int step) const {
  return arena.view(actions_).row(static_cast<size_t>(step));
}

}  // namespace flotilla
