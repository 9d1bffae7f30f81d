#include "flotilla/algo/ppo_objective.h"

#include <algorithm>
#include <cmath>

#include "flotilla/nn/vector_math.h"

namespace flotilla {
namespace {

struct ValueLoss {
  float loss, slope;
};

// Squared error; with a clip, the larger of that and the error of the value held within `clip` of
// the old one.
ValueLoss value_loss(float value, float old_value, float target, float clip) {
  const float error = value - target;
  if (clip > 0) {
    const float moved = std::clamp(value - old_value, -clip, clip);
    const float held = old_value + moved - target;
    if (held * held > error * error) {
      return {held * held, moved == value - old_value ? 2 * held : 0.0f};
    }
  }
  return {error * error, 2 * error};
}

}  // namespace

void PpoObjective::differentiate(const Rows& rows, double* sums) const {
  float log_ratio[kMaxRows], ratio[kMaxRows], raw[kMaxRows], targets[kMaxRows], old[kMaxRows];
  // Rows lie anywhere: what is far away is asked for at once, with nothing between.
  for (int r = 0; r < rows.count; ++r) {
    const int32_t i = rows.sample[r];
    log_ratio[r] = rows.logprob[r] - old_logprob[i];
    targets[r] = target[i];
    old[r] = old_value[i];
    raw[r] = advantage_from_value ? target[i] - rows.value[r] : advantage[i];
  }
  vector_exp(log_ratio, ratio, rows.count);
  float policy = 0, value = 0, entropy = 0, kl = 0, clipped = 0, ratio_error = 0;
  for (int r = 0; r < rows.count; ++r) {
    const float a = (raw[r] - advantage_mean) * advantage_scale;
    const float free = a * ratio[r];
    const float held = a * std::clamp(ratio[r], 1 - clip, 1 + clip);
    policy -= std::min(free, held);
    rows.d_logprob[r] = free <= held ? -free * row_weight : 0.0f;
    rows.d_entropy[r] = -entropy_coef * row_weight;
    const ValueLoss v = value_loss(rows.value[r], old[r], targets[r], value_clip);
    rows.d_value[r] = value_coef * v.slope * row_weight;
    value += v.loss;
    entropy += rows.entropy[r];
    kl += ratio[r] - 1 - log_ratio[r];
    clipped += std::abs(ratio[r] - 1) > clip ? 1.0f : 0.0f;
    ratio_error += std::abs(ratio[r] - 1);
  }
  sums[kPolicyLoss] += static_cast<double>(policy);
  sums[kValueLoss] += static_cast<double>(value);
  sums[kEntropy] += static_cast<double>(entropy);
  sums[kKl] += static_cast<double>(kl);
  sums[kClipped] += static_cast<double>(clipped);
  sums[kRatioError] += static_cast<double>(ratio_error);
}

}  // namespace flotilla
