// Policies whose hidden layers multiply factors of bfloat16: what is rounded and what is not, and
// how far they stray from the twin, which rounds nothing.
#include <gtest/gtest.h>

#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

class Bf16PolicyTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, Bf16PolicyTest, testing::ValuesIn(bf16_kernels()), kernel_name);

GradientStep plain() {
  return {.lr = 1e-3, .max_grad_norm = 0, .rule = Adam{.beta1 = 0, .beta2 = 0.999999}};
}

// One unit of relu with one input, under a critic that gives the unit.
struct OneUnit {
  NetworkSpec spec = network(1, {1}, Activation::kRelu, true, ActionSpace::discrete(1));
  float weight = 1, bias = 0, head = 1, head_bias = 0;

  Tensors parameters() const {
    Tensors tensors = make_parameters(spec);
    find_tensor(tensors, "trunk.0.weight").data = {weight};
    find_tensor(tensors, "trunk.0.bias").data = {bias};
    find_tensor(tensors, "critic.0.weight").data = {head};
    find_tensor(tensors, "critic.0.bias").data = {head_bias};
    return tensors;
  }
};

float value_of(Policy& policy, const OneUnit& unit, float x) {
  policy.set_parameters(unit.parameters());
  float value = 0;
  policy.value(0, reinterpret_cast<const std::byte*>(&x), 1, &value);
  return value;
}

// A bfloat16 near one is a multiple of 2^-7; halves go to the even one.
TEST_P(Bf16PolicyTest, FactorsAreRoundedToTheNearest) {
  const float unit = 0x1.0p-7F;
  const auto policy = make(OneUnit().spec);
  for (const auto& [given, expected] :
       std::vector<std::pair<float, float>>{{1 + 0.5F * unit, 1},
                                            {1 + 0.501F * unit, 1 + unit},
                                            {1 + 1.499F * unit, 1 + unit},
                                            {1 + 1.5F * unit, 1 + 2 * unit},
                                            {1 + 2.5F * unit, 1 + 2 * unit},
                                            {2 - 0.25F * unit, 2}}) {
    EXPECT_EQ(value_of(*policy, {.weight = 1}, given), expected) << given;
    EXPECT_EQ(value_of(*policy, {.weight = given}, 1), expected) << given;
    EXPECT_EQ(value_of(*policy, {.weight = -given}, -1), expected) << given;
  }
}

// Sums, biases and heads have all 24 bits.
TEST_P(Bf16PolicyTest, NothingElseIsRounded) {
  const float fine = 1 + 0x1.0p-20F;
  const auto policy = make(OneUnit().spec);
  EXPECT_EQ(value_of(*policy, {.weight = 1, .bias = fine - 1}, 1), fine);
  EXPECT_EQ(value_of(*policy, {.weight = 1, .head = fine}, 1), fine);
  EXPECT_EQ(value_of(*policy, {.weight = 1, .head_bias = fine - 1}, 1), fine);
  const float coarse = 1 + 0x1.0p-7F;
  EXPECT_EQ(value_of(*policy, {.weight = coarse}, coarse), coarse * coarse);
}

// The gradient of the unit's weight is the product of its input and its slope, both rounded; that
// of its bias is the slope itself.
TEST_P(Bf16PolicyTest, TheGradientOfAWeightIsOfRoundedFactors) {
  const float x = 1.3F, slope = 0.7F;
  const OneUnit unit;
  const auto policy = make(unit.spec);
  policy->set_parameters(unit.parameters());
  const int32_t choice = 0, row = 0;
  ThreadPool pool(1);
  learn(*policy, pool,
        {.obs = reinterpret_cast<const std::byte*>(&x),
         .latent = reinterpret_cast<const std::byte*>(&choice)},
        {&row, 1}, Nets::kBoth, Slopes(slope, 0, slope), plain());
  const Tensors state = policy->optimiser();
  const float rounded_x = 1.296875F, rounded_slope = 0.69921875F;
  EXPECT_EQ(find_tensor(state, "m.trunk.0.weight").data[0], rounded_x * rounded_slope);
  EXPECT_EQ(find_tensor(state, "m.trunk.0.bias").data[0], slope);
}

// Against the twin in double precision. A factor is off by up to 2^-9 of itself, 0.002, and sums of
// many such errors by less than that of their largest part; each layer passes on the errors of
// those below it. With up to four layers of up to 256, that stays below:
constexpr double kForward = 0.03, kBackward = 0.06, kLeastSlope = 0.05;

TEST_P(Bf16PolicyTest, SeesAlmostWhatItsTwinSees) {
  for (const Case& c : random_cases(32)) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 60, c.epsilon, 4);
    rollout.act(*policy);
    for (size_t i = 0; i < rollout.size(); ++i) {
      const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
      const SlowPolicy::Seen seen = twin.see(row);
      const auto dims = static_cast<double>(c.spec.action.dims());
      ASSERT_NEAR(rollout.logprob()[i], seen.logprob, dims * kForward) << i;
      ASSERT_NEAR(rollout.value()[i], seen.value, kForward) << i;
    }
  }
}

TEST_P(Bf16PolicyTest, LearnsAlmostTheGradientOfItsTwin) {
  ThreadPool pool(1);
  for (const Case& c : random_cases(16)) {
    if (c.spec.activation == Activation::kRelu) continue;  // rounding decides over slopes
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 150, c.epsilon, 4);
    rollout.act_at_random();
    double sums[Objective::kSums] = {};
    const SlowPolicy::Named gradient =
        twin.gradient(rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(150), sums);
    learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(150), plain());
    expect_near(policy->optimiser(), "m.", gradient, kBackward, kLeastSlope);
  }
}

}  // namespace
}  // namespace flotilla::test
