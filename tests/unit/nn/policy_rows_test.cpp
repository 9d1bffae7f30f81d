// What a row gets does not depend on the rows around it, on the tile or the thread it comes to,
// nor on whether it is acted upon or learned from.
#include <gtest/gtest.h>

#include "support/build.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

class PolicyRowsTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, PolicyRowsTest, testing::ValuesIn(every_kernel()), kernel_name);
INSTANTIATE_TEST_SUITE_P(Bf16, PolicyRowsTest, testing::ValuesIn(bf16_kernels()), kernel_name);

// The small ones, and some whose layers and heads are cut into blocks of every size.
std::vector<Case> cases() {
  std::vector<Case> all = small_cases();
  for (const uint32_t number : {0u, 1u, 2u, 3u, 8u, 9u, 14u, 15u}) {
    all.push_back(random_case(number));
  }
  all.push_back({"many outputs", network(10, {64, 64}, Activation::kTanh, false,
                                         ActionSpace::multi_discrete({17, 30, 9}))});
  return all;
}

void shuffle(std::vector<int32_t>& rows, Rng& rng) {
  for (size_t i = rows.size(); i > 1; --i) {
    std::swap(rows[i - 1], rows[rng.below(static_cast<uint32_t>(i))]);
  }
}

// Acts on rows [0, count) of the rollout as envs first_env and up, in calls of random length.
void act_in_parts(const Policy& policy, Rollout& rollout, int count, int first_env, Rng& rng) {
  for (int first = 0; first < count;) {
    const int some = 1 + static_cast<int>(rng.below(70));
    const int length = std::min(some, count - first);
    policy.act(0, rollout.act_rows(first, length, first_env + first), rollout.draw());
    first += length;
  }
}

// A ratio of probabilities starts at one, without any rounding: what learn() sees of a row are the
// bits that act() gave. libtorch multiplies matrices of other sizes when it learns, which rounds
// differently.
TEST_P(PolicyRowsTest, TheFirstRatioIsOne) {
  ThreadPool pool(2);
  Rng rng(1, stream_of(Purpose::kTest, 0));
  const int stride = is_torch() || kSanitized ? 13 : 3;  // odd: every remainder of a vector
  for (const Case& c : is_torch() ? small_cases() : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout rollout(c.spec, 200, c.epsilon, 4);
    for (int count = 1; count <= 200; count += stride) {
      act_in_parts(*policy, rollout, count, static_cast<int>(rng.below(1000)), rng);
      std::vector<int32_t> chosen(rollout.chosen().begin(), rollout.chosen().begin() + count);
      shuffle(chosen, rng);
      const Recorder recorder(rollout.size());
      learn(*policy, pool, rollout.samples(), chosen, Nets::kBoth, recorder, GradientStep());
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        if (is_torch()) {
          const double change =
              static_cast<double>(recorder.logprob[i]) - static_cast<double>(rollout.logprob()[i]);
          ASSERT_NEAR(std::exp(change), 1, 1e-6) << i;
        } else {
          ASSERT_EQ(recorder.logprob[i], rollout.logprob()[i]) << i << " of " << count;
          ASSERT_EQ(recorder.value[i], rollout.value()[i]) << i << " of " << count;
        }
      }
    }
  }
}

TEST_P(PolicyRowsTest, ARowDoesNotDependOnTheRowsAroundIt) {
  Rng rng(2, stream_of(Purpose::kTest, 0));
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout whole(c.spec, 200, c.epsilon, 4);
    whole.act(*policy);
    for (int trial = 0; trial < 5; ++trial) {
      Rollout parts(c.spec, 200, c.epsilon, 4);
      act_in_parts(*policy, parts, 200, 0, rng);
      EXPECT_EQ(parts.actions(), whole.actions());
      EXPECT_EQ(parts.logprob(), whole.logprob());
      EXPECT_EQ(parts.value(), whole.value());
    }
    std::vector<float> values(200);
    policy->value(0, whole.obs().data(), 200, values.data());
    EXPECT_EQ(values, whole.value());
  }
}

// Only what is asked for is written, and it is the same.
TEST_P(PolicyRowsTest, NumbersThatAreNotAskedFor) {
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout all(c.spec, 100, c.epsilon, 4), some(c.spec, 100, c.epsilon, 4);
    all.act(*policy);
    ActRows rows = some.act_rows(0, 100, 0);
    rows.logprob = rows.value = nullptr;
    policy->act(0, rows, some.draw());
    EXPECT_EQ(some.actions(), all.actions());
    EXPECT_EQ(some.value(), std::vector<float>(100));
    if (c.spec.action.is_box()) continue;
    Rollout same(c.spec, 100, c.epsilon, 4);
    rows = same.act_rows(0, 100, 0);
    rows.latent = rows.action;
    policy->act(0, rows, same.draw());
    EXPECT_EQ(same.actions(), all.actions());
  }
}

TEST_P(PolicyRowsTest, PartsMayActAtOnce) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout one(c.spec, 640, c.epsilon, 4), many(c.spec, 640, c.epsilon, 4);
    one.act(*policy);
    ThreadPool pool(3);
    pool.run([&](int part) {
      const Span rows = part_of({0, 640}, part, 3);
      policy->act(part, many.act_rows(rows.begin, rows.size(), rows.begin), many.draw());
    });
    EXPECT_EQ(many.actions(), one.actions());
    EXPECT_EQ(many.logprob(), one.logprob());
    EXPECT_EQ(many.value(), one.value());
  }
}

// One shard, several, and as many as there may be; with more threads than parts that act.
TEST_P(PolicyRowsTest, TheNumberOfThreadsChangesNothing) {
  Rng rng(3, stream_of(Purpose::kTest, 0));
  std::vector<Case> all = cases();
  for (Case& c : wide_cases()) all.push_back(std::move(c));
  for (const Case& c : all) {
    SCOPED_TRACE(c.name);
    const auto start = make(c.spec);
    Rollout rollout(c.spec, 2500, c.epsilon, 4);
    rollout.act(*start);
    std::vector<int32_t> chosen(rollout.chosen().begin(), rollout.chosen().end());
    shuffle(chosen, rng);
    std::string parameters, optimiser;
    double grad_norm = 0;
    for (const int threads : {1, 3, 2, 5, 16}) {
      if (kSanitized && threads != 1 && threads != 3) continue;
      if (threads > 5 && c.spec.inputs < 200) continue;  // more wait for each other than work
      const auto policy = make(c.spec);
      ThreadPool pool(threads);
      LearnResult result;
      for (const size_t rows : {size_t{90}, size_t{503}, size_t{700}, size_t{2500}}) {
        if (kSanitized && rows == 2500) continue;
        result = learn(*policy, pool, rollout.samples(), std::span(chosen).first(rows), Nets::kBoth,
                       Mixture(rows), GradientStep());
        EXPECT_EQ(result.sums[7], rows);
      }
      if (threads == 1) {
        parameters = sha256(policy->parameters());
        optimiser = sha256(policy->optimiser());
        grad_norm = result.grad_norm;
      }
      EXPECT_EQ(sha256(policy->parameters()), parameters) << threads;
      EXPECT_EQ(sha256(policy->optimiser()), optimiser) << threads;
      EXPECT_EQ(result.grad_norm, grad_norm) << threads;
    }
  }
}

// Where threads have few shards each, several work on the same one.
TEST_P(PolicyRowsTest, PiecesOfShardsChangeNothing) {
  if (is_torch()) GTEST_SKIP() << "its shards are not cut";
  const Case c{"small", network(5, {64, 64}, Activation::kTanh, false, ActionSpace::discrete(3))};
  const int rows = kSanitized ? 64 * 130 + 7 : 64 * 300 + 7;  // two and four tiles in a shard
  Rollout rollout(c.spec, rows, c.epsilon, 4);
  rollout.act(*make(c.spec));
  std::string parameters;
  for (const int threads : {1, 9, 16}) {
    const auto policy = make(c.spec);
    ThreadPool pool(threads);
    for (int update = 0; update < 3; ++update) {
      const LearnResult result = learn(*policy, pool, rollout.samples(), rollout.chosen(),
                                       Nets::kBoth, Mixture(rollout.size()), GradientStep());
      EXPECT_EQ(result.sums[7], rows);
    }
    if (threads == 1) parameters = sha256(policy->parameters());
    EXPECT_EQ(sha256(policy->parameters()), parameters) << threads;
  }
}

}  // namespace
}  // namespace flotilla::test
