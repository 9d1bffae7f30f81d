// The batch: where the environments of one step write, and where their actions are read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flotilla/core/arena.h"
#include "flotilla/env/env.h"
#include "flotilla/env/spec.h"

namespace flotilla {

// The rows of one step, indexed by env. After a step, for env i:
//   obs         the observation to act on next (of the new episode when one just ended)
//   reward, terminated, truncated   of the step just made
//   valid       0: the step failed or the env is out of service; use nothing of this row, but for
//               `metrics` where an episode ends: there NaN stands for what has no value
//   mask        legal choices for `obs`; null when the env has no mask
//   advice      choices it advises for `obs`; null when it advises none
//   final_obs, episode_return, episode_length, metrics
//               of the episode that just ended; meaningful only where terminated or truncated
struct StepView {
  std::byte* obs = nullptr;
  float* reward = nullptr;
  uint8_t* terminated = nullptr;
  uint8_t* truncated = nullptr;
  uint8_t* valid = nullptr;
  uint8_t* mask = nullptr;
  uint8_t* advice = nullptr;
  std::byte* final_obs = nullptr;
  float* episode_return = nullptr;
  int32_t* episode_length = nullptr;
  float* metrics = nullptr;

  // The same rows as seen in another mapping of the arena.
  StepView moved(const std::byte* from, std::byte* to) const;
};

// The choices that are open to a policy, legal and advised: the one array where there is only one
// of them, or else the rows of `envs` in `both`, which are written here. Null where all are open.
const uint8_t* open_choices(const EnvSpec& spec, const StepView& view, Span envs, uint8_t* both);

// Actions of all envs, `ActionSpace::dims()` numbers of four bytes each.
struct ActionView {
  const std::byte* data = nullptr;

  const void* row(size_t env, size_t dims) const { return data + env * dims * sizeof(int32_t); }
  const int32_t* ints() const { return reinterpret_cast<const int32_t*>(data); }
  const float* floats() const { return reinterpret_cast<const float*>(data); }
};

// Registers the fields of `steps` consecutive steps and gives their views. The rows of ended
// episodes exist once, not per step: take what you need of them before the next step begins.
class StepFields {
 public:
  StepFields() = default;
  StepFields(ArenaLayout& layout, const EnvSpec& spec, int num_envs, int steps);

  StepView view(const Arena& arena, int step) const;
  std::byte* actions(const Arena& arena, int step) const;  // writable, for ActionView

 private:
  FieldId<std::byte> obs_, final_obs_, actions_;
  FieldId<float> reward_, episode_return_, metrics_;
  FieldId<int32_t> episode_length_;
  FieldId<uint8_t> terminated_, truncated_, valid_, mask_, advice_;
};

}  // namespace flotilla
