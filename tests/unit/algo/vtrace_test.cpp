#include "flotilla/algo/vtrace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "flotilla/algo/advantage.h"
#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

// One env that ends, is cut and fails here and there.
struct Steps {
  std::vector<float> reward, value, log_ratio, final_value;
  std::vector<uint8_t> terminated, truncated, valid;
  std::vector<int32_t> row;
  float last_value = 0;

  Steps(int count, uint64_t number, bool on_policy) {
    Rng rng(number, stream_of(Purpose::kTest, 7));
    const auto draw = [&rng] { return static_cast<float>(rng.uniform(-2, 2)); };
    for (int t = 0; t < count; ++t) {
      reward.push_back(draw());
      value.push_back(draw());
      log_ratio.push_back(on_policy ? 0 : draw());
      final_value.push_back(draw());
      terminated.push_back(rng.below(7) == 0);
      truncated.push_back(rng.below(7) == 0);
      valid.push_back(rng.below(9) != 0);
    }
    last_value = draw();
    row.resize(static_cast<size_t>(count));
    std::iota(row.begin(), row.end(), 0);
  }

  Trajectory trajectory() const {
    return {.steps = static_cast<int>(row.size()),
            .envs = 1,
            .reward = reward.data(),
            .terminated = terminated.data(),
            .truncated = truncated.data(),
            .valid = valid.data(),
            .value = value.data(),
            .final_value = final_value.data(),
            .last_value = &last_value};
  }
  VtraceSequence sequence() const {
    return {.steps = static_cast<int>(row.size()),
            .row = row.data(),
            .value = value.data(),
            .log_ratio = log_ratio.data(),
            .last_value = last_value};
  }
};

// The definition, remark 1 of the paper's section 4.1: a sum over the steps up to the next end of
// an episode, with the products of what is clipped, in double precision.
double target_by_definition(const Steps& s, size_t first, const VtraceOptions& o) {
  if (s.valid[first] == 0) return static_cast<double>(s.value[first]);
  double sum = static_cast<double>(s.value[first]), weight = 1;
  for (size_t t = first; t < s.row.size(); ++t) {
    if (s.valid[t] == 0) break;  // what came before stands on its value
    const double ratio = std::exp(static_cast<double>(s.log_ratio[t]));
    double next = t + 1 < s.row.size() ? static_cast<double>(s.value[t + 1])
                                       : static_cast<double>(s.last_value);
    const bool ended = s.terminated[t] != 0, cut = s.truncated[t] != 0;
    if (ended) next = 0;
    if (!ended && cut) next = static_cast<double>(s.final_value[t]);
    sum += weight * std::min(o.rho, ratio) *
           (static_cast<double>(s.reward[t]) + o.gamma * next - static_cast<double>(s.value[t]));
    weight *= o.gamma * o.lambda * std::min(o.c, ratio);
    if (ended || cut) break;
  }
  return sum;
}

double advantage_by_definition(const Steps& s, size_t t, const VtraceOptions& o) {
  if (s.valid[t] == 0) return 0;
  double next =
      t + 1 < s.row.size() ? target_by_definition(s, t + 1, o) : static_cast<double>(s.last_value);
  if (s.terminated[t] != 0) {
    next = 0;
  } else if (s.truncated[t] != 0) {
    next = static_cast<double>(s.final_value[t]);
  }
  return static_cast<double>(s.reward[t]) + o.gamma * next - static_cast<double>(s.value[t]);
}

TEST(Vtrace, IsWhatItsDefinitionSays) {
  const std::vector<VtraceOptions> all = {
      {}, {.gamma = 0.9, .lambda = 0.8, .rho = 1.5, .c = 0.7}, {.gamma = 1, .rho = 1e9, .c = 1e9}};
  for (const VtraceOptions& options : all) {
    for (uint64_t number = 0; number < 50; ++number) {
      const Steps s(1 + static_cast<int>(number % 23), number, false);
      std::vector<float> advantage(s.row.size()), target(s.row.size());
      vtrace(s.trajectory(), s.sequence(), options, advantage.data(), target.data());
      for (size_t t = 0; t < s.row.size(); ++t) {
        const double wanted = target_by_definition(s, t, options);
        const double better = advantage_by_definition(s, t, options);
        ASSERT_NEAR(target[t], wanted, 1e-5 * (1 + std::abs(wanted))) << number << " " << t;
        ASSERT_NEAR(advantage[t], better, 1e-5 * (1 + std::abs(better))) << number << " " << t;
      }
    }
  }
}

TEST(Vtrace, IsAnNStepActorCriticWhereThePolicyHasNotChanged) {
  for (uint64_t number = 0; number < 50; ++number) {
    const Steps s(20, number, true);
    std::vector<float> advantage(20), target(20), gae(20), returns(20);
    vtrace(s.trajectory(), s.sequence(), {.gamma = 0.97}, advantage.data(), target.data());
    estimate_advantages(s.trajectory(), {0, 1}, 0.97, 1, gae.data(), returns.data());
    for (size_t t = 0; t < 20; ++t) {
      EXPECT_NEAR(advantage[t], gae[t], 1e-5);
      EXPECT_NEAR(target[t], returns[t], 1e-5);
    }
  }
}

}  // namespace
}  // namespace flotilla
