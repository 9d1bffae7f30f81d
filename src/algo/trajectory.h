// The steps of a rollout as an algorithm sees them: arrays of [steps][envs], row t * envs + i.
//
// Row t of env i is the step that env made from observation t. What the flags mean:
//   terminated   the episode ended there; nothing follows
//   truncated    the episode was cut; final_value holds V of its last observation
//   valid = 0    the step failed or the env was out of service; the row is to be ignored
#pragma once

#include <cstddef>
#include <cstdint>

namespace flotilla {

struct Trajectory {
  int steps = 0, envs = 0;
  const float* reward = nullptr;
  const uint8_t* terminated = nullptr;
  const uint8_t* truncated = nullptr;
  const uint8_t* valid = nullptr;
  const float* value = nullptr;        // V of the observation acted on
  const float* final_value = nullptr;  // where truncated; elsewhere not read
  const float* last_value = nullptr;   // [envs], V of the observation after the last step

  size_t rows() const { return static_cast<size_t>(steps) * static_cast<size_t>(envs); }
};

}  // namespace flotilla
