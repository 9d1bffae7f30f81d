#include "flotilla/algo/impala.h"

#include <gtest/gtest.h>

#include <vector>

namespace flotilla {
namespace {

// Two envs of three steps; env 1 fails at its second one.
TEST(ImpalaObjective, LeadsTowardsTheTargets) {
  const std::vector<float> reward = {1, 2, 3, 4, 5, 6}, final_value(6), acting(6, -1.0F);
  const std::vector<uint8_t> none(6), valid = {1, 1, 1, 0, 1, 1};
  const std::vector<float> last_value = {0.5F, -0.5F};
  ImpalaObjective loss;
  loss.trajectory = {.steps = 3,
                     .envs = 2,
                     .reward = reward.data(),
                     .terminated = none.data(),
                     .truncated = none.data(),
                     .valid = valid.data(),
                     .final_value = final_value.data()};
  loss.acting_logprob = acting.data();
  loss.last_value = last_value.data();
  loss.value_coef = 0.25F;
  loss.entropy_coef = 0.1F;
  loss.row_weight = 0.2F;
  loss.policy_rho = 1.2F;
  ASSERT_EQ(loss.sequence(), 3);

  const std::vector<int32_t> sample = {0, 2, 4, 1, 3, 5};
  const std::vector<float> logprob = {-1, -0.5F, -2, -1, -1, -1}, entropy(6, 1.5F);
  const std::vector<float> value = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F};
  std::vector<float> d_logprob(6), d_entropy(6), d_value(6);
  double sums[Objective::kSums] = {};
  loss.differentiate({.count = 6,
                      .sample = sample.data(),
                      .logprob = logprob.data(),
                      .entropy = entropy.data(),
                      .value = value.data(),
                      .d_logprob = d_logprob.data(),
                      .d_entropy = d_entropy.data(),
                      .d_value = d_value.data()},
                     sums);
  for (const int env : {0, 1}) {
    const auto first = static_cast<size_t>(env * 3);
    float log_ratio[3], advantage[3], target[3];
    for (size_t t = 0; t < 3; ++t) log_ratio[t] = logprob[first + t] + 1;
    vtrace(loss.trajectory,
           {.steps = 3,
            .row = sample.data() + first,
            .value = value.data() + first,
            .log_ratio = log_ratio,
            .last_value = last_value[static_cast<size_t>(env)]},
           loss.correction, advantage, target);
    for (size_t t = 0; t < 3; ++t) {
      const float weight = env == 1 && t == 1 ? 0 : 0.2F;
      const float ratio = std::min(1.2F, std::exp(log_ratio[t]));
      EXPECT_FLOAT_EQ(d_logprob[first + t], -ratio * advantage[t] * weight);
      EXPECT_FLOAT_EQ(d_entropy[first + t], -0.1F * weight);
      EXPECT_FLOAT_EQ(d_value[first + t], 0.5F * (value[first + t] - target[t]) * weight);
    }
  }
  EXPECT_FLOAT_EQ(static_cast<float>(sums[ImpalaObjective::kEntropy]), 5 * 1.5F);
}

}  // namespace
}  // namespace flotilla
