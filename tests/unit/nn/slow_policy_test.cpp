// The twin that all policies are compared with, compared with finite differences.
#include "support/slow_policy.h"

#include <gtest/gtest.h>

#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

TEST(SlowPolicy, GradientIsThatOfFiniteDifferences) {
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    SlowPolicy twin(c.spec, initial_parameters(c.spec, 8));
    Rollout rollout(c.spec, 3, c.epsilon, 2);
    rollout.act_at_random();
    const SlowPolicy::Seen weights{0.7, -0.4, 1.3};
    const auto loss = [&] {
      double sum = 0;
      for (int32_t i = 0; i < 3; ++i) {
        const SlowPolicy::Seen seen = twin.see(twin.row(rollout.samples(), i));
        sum += weights.logprob * seen.logprob + weights.entropy * seen.entropy +
               weights.value * seen.value;
      }
      return sum;
    };
    SlowPolicy::Named gradient;
    for (const auto& [name, values] : twin.parameters) gradient[name].assign(values.size(), 0.0);
    for (int32_t i = 0; i < 3; ++i) {
      twin.add_gradient(twin.row(rollout.samples(), i), weights, Nets::kBoth, gradient);
    }
    for (auto& [name, values] : twin.parameters) {
      for (size_t i = 0; i < values.size(); ++i) {
        const double at = values[i], step = 1e-6;
        values[i] = at + step;
        const double above = loss();
        values[i] = at - step;
        const double below = loss();
        values[i] = at;
        const double slope = (above - below) / (2 * step);
        ASSERT_NEAR(gradient[name][i], slope, 1e-6 * std::max(1.0, std::abs(slope)))
            << name << "[" << i << "]";
      }
    }
  }
}

}  // namespace
}  // namespace flotilla::test
