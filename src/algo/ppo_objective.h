// The loss of PPO as the policies see it.
#pragma once

#include "flotilla/nn/policy.h"

namespace flotilla {

class PpoObjective final : public Objective {
 public:
  enum Sum { kPolicyLoss, kValueLoss, kEntropy, kKl, kClipped, kRatioError };

  const float *old_logprob = nullptr, *old_value = nullptr;
  const float *advantage = nullptr, *target = nullptr;
  bool advantage_from_value = false;  // target less the current value instead of `advantage`
  float advantage_mean = 0, advantage_scale = 1;
  float clip = 0.2f, value_clip = 0, value_coef = 0.5f, entropy_coef = 0;
  float row_weight = 1;  // 1 / rows of the minibatch

  void differentiate(const Rows& rows, double* sums) const override;
};

}  // namespace flotilla
