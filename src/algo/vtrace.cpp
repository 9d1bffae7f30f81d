#include "flotilla/algo/vtrace.h"

#include <algorithm>
#include <cmath>

namespace flotilla {

void vtrace(const Trajectory& trajectory, const VtraceSequence& sequence,
            const VtraceOptions& options, float* advantage, float* target) {
  const auto gamma = static_cast<float>(options.gamma);
  const auto lambda = static_cast<float>(options.lambda);
  const auto rho = static_cast<float>(options.rho), c = static_cast<float>(options.c);
  float next_value = sequence.last_value, next_target = sequence.last_value;
  for (int t = sequence.steps - 1; t >= 0; --t) {
    const auto row = static_cast<size_t>(sequence.row[t]);
    const float value = sequence.value[t];
    if (trajectory.valid[row] == 0) {
      advantage[t] = 0;
      target[t] = next_value = next_target = value;
      continue;
    }
    if (trajectory.terminated[row] != 0) {
      next_value = next_target = 0;
    } else if (trajectory.truncated[row] != 0) {
      next_value = next_target = trajectory.final_value[row];
    }
    const float ratio = std::exp(sequence.log_ratio[t]), reward = trajectory.reward[row];
    advantage[t] = reward + gamma * next_target - value;
    target[t] = value + std::min(rho, ratio) * (reward + gamma * next_value - value) +
                gamma * lambda * std::min(c, ratio) * (next_target - next_value);
    next_value = value;
    next_target = target[t];
  }
}

}  // namespace flotilla
