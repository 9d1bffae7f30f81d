#include "flotilla/algo/advantage.h"

#include <cmath>

namespace flotilla {
namespace {

size_t row_of(const Trajectory& trajectory, int step, int env) {
  return static_cast<size_t>(step) * static_cast<size_t>(trajectory.envs) +
         static_cast<size_t>(env);
}

}  // namespace

void estimate_advantages(const Trajectory& trajectory, Span envs, double gamma, double lambda,
                         float* advantage, float* target) {
  const auto discount = static_cast<float>(gamma);
  const auto decay = static_cast<float>(gamma * lambda);
  const float* const value = trajectory.value;
  for (int t = trajectory.steps - 1; t >= 0; --t) {
    const bool last = t == trajectory.steps - 1;
    for (int i = envs.begin; i < envs.end; ++i) {
      const size_t row = row_of(trajectory, t, i);
      const size_t next = row + static_cast<size_t>(trajectory.envs);
      float result = 0;
      if (trajectory.valid[row] != 0) {
        // An invalid row's advantage is 0, so nothing comes across it.
        float next_value = last ? trajectory.last_value[i] : value[next];
        float next_advantage = last ? 0 : advantage[next];
        if (trajectory.terminated[row] != 0) {
          next_value = next_advantage = 0;
        } else if (trajectory.truncated[row] != 0) {
          next_value = trajectory.final_value[row];
          next_advantage = 0;
        }
        result = trajectory.reward[row] + discount * next_value - value[row];
        result += decay * next_advantage;
      }
      advantage[row] = result;
      target[row] = result + value[row];
    }
  }
}

void monte_carlo_returns(const Trajectory& trajectory, Span envs, double gamma, float* returns) {
  const auto discount = static_cast<float>(gamma);
  for (int t = trajectory.steps - 1; t >= 0; --t) {
    const bool last = t == trajectory.steps - 1;
    for (int i = envs.begin; i < envs.end; ++i) {
      const size_t row = row_of(trajectory, t, i);
      const bool ended = trajectory.terminated[row] != 0 || trajectory.truncated[row] != 0;
      const float after = last || ended ? 0 : returns[row + static_cast<size_t>(trajectory.envs)];
      returns[row] = trajectory.valid[row] != 0 ? trajectory.reward[row] + discount * after : 0;
    }
  }
}

void normalise(float* x, const uint8_t* valid, size_t rows, double epsilon) {
  double count = 0, sum = 0, squares = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (valid[row] == 0) continue;
    count += 1;
    sum += static_cast<double>(x[row]);
  }
  const double mean = count > 0 ? sum / count : 0;
  for (size_t row = 0; row < rows; ++row) {
    if (valid[row] == 0) continue;
    const double difference = static_cast<double>(x[row]) - mean;
    squares += difference * difference;
  }
  // One row alone has no deviation, and is its own mean: it becomes 0.
  const double deviation = count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  const double scale = 1 / (deviation + epsilon);
  for (size_t row = 0; row < rows; ++row) {
    x[row] = valid[row] != 0 ? static_cast<float>((static_cast<double>(x[row]) - mean) * scale) : 0;
  }
}

}  // namespace flotilla
