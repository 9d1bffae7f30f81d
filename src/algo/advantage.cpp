#include "flotilla/algo/advantage.h"

#include <cmath>
#include <vector>

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

Moments moments_of(const float* x, std::span<const int32_t> rows) {
  Moments moments{.count = static_cast<double>(rows.size())};
  if (rows.empty()) return moments;
  double sum = 0;
  for (const int32_t row : rows) sum += static_cast<double>(x[row]);
  moments.mean = sum / moments.count;
  for (const int32_t row : rows) {
    const double difference = static_cast<double>(x[row]) - moments.mean;
    moments.squares += difference * difference;
  }
  return moments;
}

void normalise(float* x, const uint8_t* valid, size_t rows, double epsilon) {
  std::vector<int32_t> valid_rows;
  for (size_t row = 0; row < rows; ++row) {
    if (valid[row] != 0) valid_rows.push_back(static_cast<int32_t>(row));
  }
  normalise(x, valid, rows, moments_of(x, valid_rows), epsilon);
}

void normalise(float* x, const uint8_t* valid, size_t rows, const Moments& moments,
               double epsilon) {
  // One row alone has no deviation, and is its own mean: it becomes 0.
  const double deviation = moments.count > 1 ? std::sqrt(moments.variance()) : 0;
  const double scale = 1 / (deviation + epsilon);
  for (size_t row = 0; row < rows; ++row) {
    const double difference = static_cast<double>(x[row]) - moments.mean;
    x[row] = valid[row] != 0 ? static_cast<float>(difference * scale) : 0;
  }
}

}  // namespace flotilla
