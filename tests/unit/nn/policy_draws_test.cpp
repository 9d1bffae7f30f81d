// The actions a policy draws: by the rule its twin has, as often as their probability says, and
// never one that is closed.
#include <gtest/gtest.h>

#include <array>

#include "support/build.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

class PolicyDrawsTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, PolicyDrawsTest, testing::ValuesIn(every_kernel()), kernel_name);

std::vector<Case> cases() {
  std::vector<Case> all = small_cases();
  for (Case& c : random_cases(32)) all.push_back(std::move(c));
  return all;
}

// Whether u lies so near to where one choice ends and the next begins that rounding decides.
bool at_a_border(std::span<const double> p, double u) {
  double before = 0;
  for (const double x : p) {
    before += x;
    if (std::abs(before - u) < 1e-6) return true;
  }
  return false;
}

TEST_P(PolicyDrawsTest, ChoosesByTheRuleOfItsTwin) {
  size_t draws = 0, left_out = 0;
  for (const Case& c : cases()) {
    if (c.spec.action.is_box()) continue;
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    const size_t dims = c.spec.action.dims();
    Rollout rollout(c.spec, 120, c.epsilon, 4);
    for (const int first_env : {0, 1001}) {
      policy->act(0, rollout.act_rows(0, rollout.rows(), first_env), rollout.draw());
      for (size_t i = 0; i < rollout.size(); ++i) {
        const SlowPolicy::Vector all =
            twin.probabilities(twin.row(rollout.samples(), static_cast<int32_t>(i)));
        const size_t env = i + static_cast<size_t>(first_env);
        for (size_t d = 0, first = 0; d < dims; ++d) {
          const std::span p(all.data() + first, static_cast<size_t>(c.spec.action.choices[d]));
          const double u = SlowPolicy::uniform(Rollout::kSeed, Rollout::kStep, env * dims + d);
          ++draws;
          if (at_a_border(p, u)) {
            ++left_out;
          } else {
            ASSERT_EQ(rollout.choice(i)[d], SlowPolicy::choose(p, u)) << i << ", " << d;
          }
          first += p.size();
        }
      }
    }
  }
  EXPECT_LT(left_out, draws / 100);
}

TEST_P(PolicyDrawsTest, SamplesABoxByTheRuleOfItsTwin) {
  for (const Case& c : cases()) {
    if (!c.spec.action.is_box()) continue;
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    const size_t dims = c.spec.action.dims();
    Rollout rollout(c.spec, 120, 0, 4);
    for (const int first_env : {0, 1001}) {
      policy->act(0, rollout.act_rows(0, rollout.rows(), first_env), rollout.draw());
      for (size_t i = 0; i < rollout.size(); ++i) {
        const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
        const SlowPolicy::Vector mean = twin.actor_outputs(row.obs);
        const size_t env = i + static_cast<size_t>(first_env);
        for (size_t d = 0; d < dims; ++d) {
          const double normal = SlowPolicy::normal(Rollout::kSeed, Rollout::kStep, env * dims + d);
          const double sample = mean[d] + std::exp(c.spec.log_std) * normal;
          // Roundings of the mean, and of an angle of up to 2 pi.
          ASSERT_NEAR(rollout.sample(i)[d], sample, 1e-5);
          ASSERT_NEAR(rollout.action(i)[d], twin.box_action(sample, d), 1e-5);
        }
      }
    }
  }
}

TEST_P(PolicyDrawsTest, GreedyTakesTheLikeliest) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 60, c.epsilon, 6);
    rollout.act(*policy, true);
    for (size_t i = 0; i < rollout.size(); ++i) {
      const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
      if (c.spec.action.is_box()) {
        const SlowPolicy::Vector mean = twin.actor_outputs(row.obs);
        for (size_t d = 0; d < mean.size(); ++d) {
          ASSERT_NEAR(rollout.sample(i)[d], mean[d], 1e-5);
          ASSERT_NEAR(rollout.action(i)[d], twin.box_action(mean[d], d), 1e-5);
        }
        continue;
      }
      const SlowPolicy::Vector p = twin.probabilities(row);
      auto first = p.begin();
      for (size_t d = 0; d < c.spec.action.dims(); ++d) {
        const auto end = first + c.spec.action.choices[d];
        // Of two that are as good as alike, either.
        ASSERT_NEAR(first[rollout.choice(i)[d]], *std::max_element(first, end), 1e-6) << i;
        first = end;
      }
    }
  }
}

TEST_P(PolicyDrawsTest, TiesGoToTheLowestOpenChoice) {
  for (const int choices : {4, 40}) {
    NetworkSpec spec = network(2, {4}, Activation::kTanh, false, ActionSpace::discrete(choices));
    spec.has_mask = true;
    const auto policy = make(spec);
    policy->set_parameters(make_parameters(spec));  // zeros: all choices are alike
    for (const float epsilon : {0.0F, 0.5F}) {
      Rollout rollout(spec, 50, epsilon, 1);
      rollout.act(*policy, true);
      for (size_t i = 0; i < rollout.size(); ++i) {
        const uint8_t* mask = rollout.samples().mask + i * static_cast<size_t>(choices);
        int32_t lowest = 0, open = 0;
        while (mask[lowest] == 0) ++lowest;
        for (int k = 0; k < choices; ++k) open += mask[k];
        ASSERT_EQ(rollout.choice(i)[0], lowest) << i;
        ASSERT_NEAR(rollout.logprob()[i], -std::log(open), 1e-6) << i;
      }
    }
  }
}

// Sets the logits to the biases, whatever is observed.
void set_logits(Policy& policy, const std::vector<float>& logits) {
  Tensors tensors = make_parameters(policy.spec());
  find_tensor(tensors, "actor.0.bias").data = logits;
  policy.set_parameters(tensors);
}

// Over ten million draws: few open choices or one, even probabilities and such that all of them is
// on closed choices or on one open choice.
TEST_P(PolicyDrawsTest, ClosedChoicesAreNeverDrawn) {
  // libtorch takes ten times as long, a sanitizer even longer.
  const size_t enough = kSanitized ? 50'000 : is_torch() ? 150'000 : 1'500'000;
  constexpr int kRows = 4096;
  const std::vector<ActionSpace> spaces = {ActionSpace::discrete(5), ActionSpace::discrete(20),
                                           ActionSpace::multi_discrete({3, 2, 4, 12})};
  Rng rng(7, stream_of(Purpose::kTest, 0));
  size_t draws = 0;
  uint64_t step = 0;
  while (draws < enough) {
    for (const ActionSpace& space : spaces) {
      NetworkSpec spec = network(1, {}, Activation::kTanh, true, space);
      spec.has_mask = true;
      const auto policy = make(spec);
      for (const bool extreme : {false, true}) {
        std::vector<float> logits(space.mask_size());
        for (float& x : logits) {
          x = extreme ? (rng.chance(0.5) ? 80.0F : -80.0F) : static_cast<float>(rng.normal());
        }
        set_logits(*policy, logits);
        for (const float epsilon : {0.0F, 0.3F, 1.0F}) {
          for (const double open : {0.0, 0.4}) {
            Rollout rollout(spec, kRows, epsilon, ++step);
            ActRows rows = rollout.act_rows(0, kRows, 0);
            std::vector<uint8_t> mask(rollout.size() * space.mask_size(), 0);
            size_t first = 0;
            for (size_t row = 0; row < rollout.size(); ++row) {
              for (const int count : space.choices) {
                for (int c = 0; open > 0 && c < count; ++c) {
                  mask[first + static_cast<size_t>(c)] = rng.next_u32() < open * 0x1.0p32;
                }
                mask[first + rng.below(static_cast<uint32_t>(count))] = 1;
                first += static_cast<size_t>(count);
              }
            }
            rows.mask = mask.data();
            for (int again = 0; again < 8; ++again) {
              policy->act(0, rows,
                          {.seed = 1,
                           .step = step * 100 + static_cast<uint64_t>(again),
                           .epsilon = epsilon});
              first = 0;
              for (size_t row = 0; row < rollout.size(); ++row) {
                ASSERT_TRUE(std::isfinite(rollout.logprob()[row]));
                for (size_t d = 0; d < space.dims(); ++d) {
                  const int32_t choice = rollout.choice(row)[d];
                  if (choice < 0 || choice >= space.choices[d] ||
                      mask[first + static_cast<size_t>(choice)] == 0) {
                    FAIL() << "row " << row << ", dimension " << d << ": " << choice;
                  }
                  first += static_cast<size_t>(space.choices[d]);
                }
              }
              draws += rollout.size() * space.dims();
            }
          }
        }
      }
    }
  }
}

// A draw of 0 takes the first open choice; one as near to 1 as there is does not run past the last,
// even where the probabilities are rounded to less than 1 together.
TEST_P(PolicyDrawsTest, TheSmallestAndTheLargestDraw) {
  constexpr int kSmallest = 2282589, kLargest = 21305463;  // envs
  ASSERT_EQ(SlowPolicy::uniform(Rollout::kSeed, Rollout::kStep, kSmallest), 0);
  ASSERT_EQ(SlowPolicy::uniform(Rollout::kSeed, Rollout::kStep, kLargest), 1 - 0x1.0p-24);
  NetworkSpec spec = network(3, {}, Activation::kTanh, true, ActionSpace::discrete(12));
  spec.has_mask = true;
  const auto policy = make(spec);
  for (const float epsilon : {0.0F, 0.3F, 0.9F, 1.0F}) {
    Rollout rollout(spec, is_torch() ? 500 : 20'000, epsilon, 3);
    for (int i = 0; i < rollout.rows(); ++i) {
      const auto row = static_cast<size_t>(i);
      const uint8_t* mask = rollout.samples().mask + row * 12;
      policy->act(0, rollout.act_rows(i, 1, kLargest), rollout.draw());
      ASSERT_EQ(mask[rollout.choice(row)[0]], 1) << i;
      policy->act(0, rollout.act_rows(i, 1, kSmallest), rollout.draw());
      ASSERT_EQ(rollout.choice(row)[0], std::find(mask, mask + 12, 1) - mask) << i;
    }
  }
}

// The value that chi-square of so many degrees of freedom passes once in 30000 cases (4 standard
// deviations): Wilson and Hilferty, "The distribution of chi-square" (1931).
double chi_square_limit(size_t degrees) {
  const double part = 2.0 / (9.0 * static_cast<double>(degrees));
  return static_cast<double>(degrees) * std::pow(1 - part + 4 * std::sqrt(part), 3);
}

void expect_frequencies(std::span<const size_t> counts, std::span<const double> probabilities) {
  const auto draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  double sum = 0;
  size_t degrees = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0u) << i;
      continue;
    }
    ASSERT_GT(expected, 20) << "too few draws to judge";
    sum += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
    ++degrees;
  }
  if (degrees > 1) {
    EXPECT_LT(sum, chi_square_limit(degrees - 1));
  }
}

TEST_P(PolicyDrawsTest, FrequenciesAreTheProbabilities) {
  constexpr int kRows = 1 << 16;
  for (const bool masked : {false, true}) {
    for (const float epsilon : {0.0F, 0.25F}) {
      NetworkSpec spec =
          network(1, {}, Activation::kTanh, true, ActionSpace::multi_discrete({2, 5, 3, 19}));
      spec.has_mask = masked;
      const auto policy = make(spec);
      std::vector<float> logits(spec.action.mask_size());
      std::vector<uint8_t> mask;
      Rng rng(3, stream_of(Purpose::kTest, 0));
      for (float& x : logits) x = static_cast<float>(rng.normal());
      set_logits(*policy, logits);
      for (size_t i = 0; i < logits.size(); ++i) mask.push_back(i % 3 != 1);
      Rollout rollout(spec, kRows, epsilon, 4);
      ActRows rows = rollout.act_rows(0, kRows, 0);
      std::vector<uint8_t> masks;
      for (int i = 0; i < kRows; ++i) masks.insert(masks.end(), mask.begin(), mask.end());
      rows.mask = masked ? masks.data() : nullptr;
      policy->act(0, rows, rollout.draw());
      SlowPolicy::Row row = twin_of(*policy).row(rollout.samples(), 0);
      row.mask = masked ? mask.data() : nullptr;
      const SlowPolicy::Vector p = twin_of(*policy).probabilities(row);
      size_t first = 0;
      for (size_t d = 0; d < spec.action.dims(); ++d) {
        const auto count = static_cast<size_t>(spec.action.choices[d]);
        std::vector<size_t> counts(count);
        for (size_t i = 0; i < rollout.size(); ++i) {
          ++counts[static_cast<size_t>(rollout.choice(i)[d])];
        }
        SCOPED_TRACE("dimension " + std::to_string(d));
        expect_frequencies(counts, {p.data() + first, count});
        first += count;
      }
    }
  }
}

TEST_P(PolicyDrawsTest, ABoxIsSampledFromItsGaussian) {
  constexpr int kRows = 1 << 16;
  constexpr size_t kBins = 32;
  NetworkSpec spec = network(1, {}, Activation::kTanh, true, ActionSpace::box({-1, -1}, {1, 1}));
  spec.log_std = 0.7;
  const auto policy = make(spec);
  const SlowPolicy twin = twin_of(*policy);
  Rollout rollout(spec, kRows, 0, 4);
  rollout.act(*policy);
  for (size_t d = 0; d < spec.action.dims(); ++d) {
    std::array<size_t, kBins> counts{};
    std::array<double, kBins> even{};
    even.fill(1.0 / kBins);
    for (size_t i = 0; i < rollout.size(); ++i) {
      const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
      const double z =
          (static_cast<double>(rollout.sample(i)[d]) - twin.actor_outputs(row.obs)[d]) /
          std::exp(spec.log_std);
      const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
      ++counts[std::min(kBins - 1, static_cast<size_t>(below * kBins))];
    }
    expect_frequencies(counts, even);
  }
}

}  // namespace
}  // namespace flotilla::test
