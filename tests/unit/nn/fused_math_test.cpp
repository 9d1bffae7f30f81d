// The functions of the fused kernels, through the smallest networks that show them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "flotilla/nn/vector_math.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

class FusedMathTest : public OnEveryKernel {
 protected:
  static const fused::Kernels& kernels() { return *GetParam().fused; }
};

std::vector<Kernel> fused_kernels() {
  std::vector<Kernel> all = every_kernel();
  std::erase_if(all, [](const Kernel& kernel) { return kernel.is_torch(); });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Kernels, FusedMathTest, testing::ValuesIn(fused_kernels()), kernel_name);

// Distance in units of the last place of the expected number.
double ulps(float given, double expected) {
  const auto nearest = static_cast<float>(expected);
  const float next = std::nextafter(std::abs(nearest), std::numeric_limits<float>::infinity());
  const double unit = static_cast<double>(next) - static_cast<double>(std::abs(nearest));
  return std::abs(static_cast<double>(given) - expected) / unit;
}

std::vector<float> even_steps(double low, double high, int count) {
  std::vector<float> x;
  for (int i = 0; i <= count; ++i) {
    x.push_back(static_cast<float>(low + (high - low) * i / count));
  }
  return x;
}

TEST_P(FusedMathTest, Exp) {
  const std::vector<float> x = even_steps(-87, 88, 1'000'003);
  std::vector<float> y(x.size());
  kernels().exp(x.data(), y.data(), static_cast<int>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LT(ulps(y[i], std::exp(static_cast<double>(x[i]))), 2) << x[i];
  }
}

TEST_P(FusedMathTest, ExpOfNothingIsOneAndItsEndsAreFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {0, -0.0F, 88, 89, 1e30F, infinity, -87, -88, -1e30F, -infinity, 1e-20F};
  float y[std::size(x)];
  kernels().exp(x, y, std::size(x));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[10], 1);
  for (const size_t i : {3u, 4u, 5u}) EXPECT_EQ(y[i], y[2]) << x[i];
  for (const size_t i : {7u, 8u, 9u}) EXPECT_EQ(y[i], y[6]) << x[i];
  EXPECT_TRUE(std::isfinite(y[2]));
  EXPECT_TRUE(std::isnormal(y[6]));
}

// Any number of elements, and no more than that.
TEST_P(FusedMathTest, ExpOfAnyNumber) {
  const std::vector<float> x = even_steps(-3, 3, 70);
  std::vector<float> all(x.size());
  kernels().exp(x.data(), all.data(), 70);
  for (int count = 0; count < 70; ++count) {
    std::vector<float> y(x.size(), -1);
    kernels().exp(x.data(), y.data(), count);
    for (int i = 0; i < 70; ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(y[at], i < count ? all[at] : -1) << count;
    }
  }
}

// A unit that gives its input, and a critic that gives the unit.
TEST_P(FusedMathTest, Tanh) {
  const NetworkSpec spec = network(1, {1}, Activation::kTanh, true, ActionSpace::discrete(1));
  const auto policy = make(spec);
  Tensors tensors = make_parameters(spec);
  find_tensor(tensors, "trunk.0.weight").data = {1};
  find_tensor(tensors, "critic.0.weight").data = {1};
  policy->set_parameters(tensors);
  std::vector<float> x = even_steps(-12, 12, 400'000);
  for (int power = -40; power < 100; ++power) {
    x.push_back(std::ldexp(1.1F, power));
    x.push_back(-std::ldexp(1.1F, power));
  }
  x.push_back(0);
  std::vector<float> y(x.size());
  policy->value(0, reinterpret_cast<const std::byte*>(x.data()), static_cast<int>(x.size()),
                y.data());
  EXPECT_EQ(y.back(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::tanh(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], expected, 4e-7) << x[i];
    if (std::abs(x[i]) < 0.5F) {  // small numbers keep their digits
      ASSERT_NEAR(y[i], expected, 1e-6 * std::abs(expected)) << x[i];
    }
    ASSERT_LE(std::abs(y[i]), 1) << x[i];  // or the slope would be negative
  }
}

// Of two choices, one has no probability but epsilon's share: its log-probability is that of
// epsilon / 2.
TEST_P(FusedMathTest, Log) {
  const NetworkSpec spec = network(1, {}, Activation::kTanh, true, ActionSpace::discrete(2));
  const auto policy = make(spec);
  Tensors tensors = make_parameters(spec);
  find_tensor(tensors, "actor.0.bias").data = {0, -1000};
  policy->set_parameters(tensors);
  const float obs = 0;
  const int32_t choice = 1, row = 0;
  const Recorder recorder(1);
  ThreadPool pool(1);
  std::vector<float> epsilons = {1};
  for (int i = 0; i < 20'000; ++i) epsilons.push_back(std::exp(-69.0F * i / 20'000));
  for (const float epsilon : epsilons) {
    const Samples samples{.obs = reinterpret_cast<const std::byte*>(&obs),
                          .latent = reinterpret_cast<const std::byte*>(&choice),
                          .epsilon = epsilon};
    learn(*policy, pool, samples, {&row, 1}, Nets::kBoth, recorder, GradientStep());
    ASSERT_LT(ulps(recorder.logprob[0], std::log(static_cast<double>(epsilon) / 2)), 2) << epsilon;
  }
}

// Choices that are alike have the logarithm of their number; of one choice, it is exactly zero.
TEST_P(FusedMathTest, LogOfWholeNumbers) {
  for (int choices = 1; choices <= 256; ++choices) {
    const NetworkSpec spec =
        network(1, {}, Activation::kTanh, true, ActionSpace::discrete(choices));
    const auto policy = make(spec);
    policy->set_parameters(make_parameters(spec));
    Rollout rollout(spec, 1, 0, 1);
    rollout.act(*policy);
    if (choices == 1) {
      EXPECT_EQ(rollout.logprob()[0], 0);
    } else {
      EXPECT_LT(ulps(rollout.logprob()[0], -std::log(choices)), 2) << choices;
    }
  }
}

TEST(VectorMath, ExpOfTheBestKernel) {
  const std::vector<float> x = even_steps(-20, 20, 1000);
  std::vector<float> y(x.size());
  vector_exp(x.data(), y.data(), static_cast<int>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LT(ulps(y[i], std::exp(static_cast<double>(x[i]))), 2) << x[i];
  }
}

}  // namespace
}  // namespace flotilla::test
