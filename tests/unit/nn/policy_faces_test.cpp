// What algorithms that are not made of independent rows, other machines and actors need of a
// policy: terms of rows, losses of whole sequences, a gradient to be changed, snapshots.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "support/error_text.h"
#include "support/learn.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

class PolicyFacesTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, PolicyFacesTest, testing::ValuesIn(every_kernel()), kernel_name);

// A matrix product of libtorch may round by the number of rows.
double tolerance(bool is_torch) { return is_torch ? 5e-6 : 0; }

TEST_P(PolicyFacesTest, EvaluatesWhatALossSees) {
  ThreadPool pool(2);
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout rollout(c.spec, 150, c.epsilon, 4);
    rollout.act(*policy);
    std::vector<float> logprob(150), entropy(150), value(150), alone(150);
    policy->evaluate(pool, rollout.samples(), rollout.chosen(),
                     {logprob.data(), entropy.data(), value.data()});
    policy->evaluate(pool, rollout.samples(), rollout.chosen(), {.entropy = alone.data()});
    const Recorder recorder(rollout.size());
    policy->gradient(pool, rollout.samples(), rollout.chosen(), Nets::kBoth, recorder);
    for (size_t i = 0; i < rollout.size(); ++i) {
      ASSERT_NEAR(logprob[i], recorder.logprob[i], tolerance(is_torch())) << i;
      ASSERT_NEAR(logprob[i], rollout.logprob()[i], tolerance(is_torch())) << i;
      ASSERT_NEAR(entropy[i], recorder.entropy[i], tolerance(is_torch())) << i;
      ASSERT_NEAR(value[i], recorder.value[i], tolerance(is_torch())) << i;
      ASSERT_EQ(alone[i], entropy[i]) << i;
    }
  }
}

// ---- sequences ----------------------------------------------------------------------------------

constexpr int kLength = 9;

// The value of every row is to become what the rows behind it in its sequence are worth, and its
// action likelier by that: nothing of it can be told from one row. It remembers the
// slopes it gave.
class Chain : public Objective {
 public:
  explicit Chain(size_t rows) : slopes_(3 * rows) {}
  int sequence() const override { return kLength; }

  void differentiate(const Rows& rows, double* sums) const override {
    EXPECT_EQ(rows.count % kLength, 0);
    for (int first = 0; first < rows.count; first += kLength) {
      float behind = 0;
      for (int i = first + kLength - 1; i >= first; --i) {
        EXPECT_EQ(rows.sample[i] - rows.sample[first], i - first);
        const auto row = static_cast<size_t>(rows.sample[i]);
        rows.d_logprob[i] = slopes_[3 * row] = -0.01F * (behind - rows.value[i]);
        rows.d_entropy[i] = slopes_[3 * row + 1] = 0.001F * std::tanh(behind);
        rows.d_value[i] = slopes_[3 * row + 2] = 0.02F * (rows.value[i] - behind);
        behind = 0.9F * behind + rows.entropy[i] + 0.1F * rows.logprob[i];
        sums[0] += static_cast<double>(behind);
        sums[1] += 1;
      }
    }
  }

  // The same slopes, row by row.
  class Remembered : public Objective {
   public:
    explicit Remembered(const Chain& chain) : slopes_(chain.slopes_) {}
    void differentiate(const Rows& rows, double*) const override {
      for (int i = 0; i < rows.count; ++i) {
        const float* own = &slopes_[3 * static_cast<size_t>(rows.sample[i])];
        rows.d_logprob[i] = own[0];
        rows.d_entropy[i] = own[1];
        rows.d_value[i] = own[2];
      }
    }

   private:
    const std::vector<float>& slopes_;
  };

 private:
  mutable std::vector<float> slopes_;
};

TEST_P(PolicyFacesTest, LearnsFromWholeSequencesWhatItsTwinLearns) {
  ThreadPool pool(2);
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 31 * kLength, c.epsilon, 4);
    rollout.act_at_random();
    const Chain chain(rollout.size());
    const GradientStep plain{.lr = 1e-3, .max_grad_norm = 0, .rule = Adam{.beta1 = 0}};
    const LearnResult result =
        learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, chain, plain);
    EXPECT_EQ(result.sums[1], 31 * kLength) << "every row once";
    double none[Objective::kSums] = {};
    const SlowPolicy::Named expected = twin.gradient(rollout.samples(), rollout.chosen(),
                                                     Nets::kBoth, Chain::Remembered(chain), none);
    expect_near(policy->optimiser(), "m.", expected, 5e-5, 0.02);
  }
}

TEST_P(PolicyFacesTest, SequencesLearnTheSameOnAnyNumberOfThreads) {
  const Case c = small_cases()[0];
  Rollout rollout(c.spec, 150 * kLength, c.epsilon, 4);
  rollout.act_at_random();
  std::vector<std::string> hashes;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    const auto policy = make(c.spec);
    learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Chain(rollout.size()));
    hashes.push_back(sha256(policy->parameters()));
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST_P(PolicyFacesTest, HalfASequenceIsRefused) {
  ThreadPool pool(1);
  const Case c = small_cases()[0];
  const auto policy = make(c.spec);
  Rollout rollout(c.spec, 2 * kLength, c.epsilon, 4);
  rollout.act_at_random();
  const auto refusal = [&](std::span<const int32_t> chosen) {
    return error_text(ErrorCode::kUsage, [&] {
      policy->gradient(pool, rollout.samples(), chosen, Nets::kBoth, Chain(rollout.size()));
    });
  };
  EXPECT_EQ(refusal(rollout.chosen().first(kLength + 1)),
            "the rows to learn from are not whole sequences");
  EXPECT_EQ(refusal({}), "no rows to learn from");
}

TEST_P(PolicyFacesTest, RowsOnADeviceAreRefusedByWhoCannotReadThem) {
  ThreadPool pool(1);
  const Case c = small_cases()[0];
  const auto policy = make(c.spec);
  Rollout rollout(c.spec, 8, c.epsilon, 4);
  rollout.act_at_random();
  Samples samples = rollout.samples();
  samples.memory = Memory::kCuda;
  const std::string refusal = "this policy reads rows in the memory of the host alone";
  EXPECT_EQ(error_text(ErrorCode::kUsage,
                       [&] {
                         policy->gradient(pool, samples, rollout.chosen(), Nets::kBoth, Mixture(8));
                       }),
            refusal);
  EXPECT_EQ(
      error_text(ErrorCode::kUsage, [&] { policy->evaluate(pool, samples, rollout.chosen(), {}); }),
      refusal);
  ActRows rows = rollout.act_rows(0, 8, 0);
  rows.memory = Memory::kCuda;
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { policy->act(0, rows, {}); }), refusal);
}

// ---- gradient and step --------------------------------------------------------------------------

// What several machines do: each has the gradient of its own rows, all apply the mean.
TEST_P(PolicyFacesTest, GradientsOfHalvesAddUpToThatOfAll) {
  ThreadPool pool(1);
  const GradientStep step{.lr = 1e-2, .max_grad_norm = 0.1};
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    Rollout rollout(c.spec, 200, c.epsilon, 4);
    rollout.act_at_random();
    const auto whole = make(c.spec), half = make(c.spec), other = make(c.spec);
    if (whole->implementation().memory != Memory::kHost) continue;
    const Mixture objective(rollout.size());
    whole->gradient(pool, rollout.samples(), rollout.chosen(), Nets::kBoth, objective);
    half->gradient(pool, rollout.samples(), rollout.chosen().first(90), Nets::kBoth, objective);
    other->gradient(pool, rollout.samples(), rollout.chosen().subspan(90), Nets::kBoth, objective);
    const GradientView sum = half->gradient_view(), more = other->gradient_view();
    ASSERT_EQ(sum.count, more.count);
    for (size_t i = 0; i < sum.count; ++i) sum.data[i] += more.data[i];
    const double norm = whole->apply(pool, Nets::kBoth, step);
    EXPECT_NEAR(half->apply(pool, Nets::kBoth, step), norm, 1e-5 * norm);
    const Tensors expected = whole->parameters(), found = half->parameters();
    for (size_t t = 0; t < expected.size(); ++t) {
      for (size_t i = 0; i < expected[t].elements(); ++i) {
        // Where a slope is next to nothing, Adam's first step may have another size.
        ASSERT_NEAR(found[t].data[i], expected[t].data[i], 0.02 * step.lr) << expected[t].name;
      }
    }
  }
}

TEST_P(PolicyFacesTest, AGradientThatWasOnlyLookedAtIsAppliedAsItWas) {
  ThreadPool pool(2);
  const Case c = small_cases()[1];
  Rollout rollout(c.spec, 700, c.epsilon, 4);
  rollout.act_at_random();
  const auto looked = make(c.spec), plain = make(c.spec);
  looked->gradient(pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(700));
  looked->gradient_view();
  const double norm = looked->apply(pool, Nets::kBoth, {});
  EXPECT_EQ(
      learn(*plain, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(700)).grad_norm,
      norm);
  EXPECT_TRUE(same_bits(looked->parameters(), plain->parameters()));
}

TEST_P(PolicyFacesTest, RmsPropStaysWithItsTwin) {
  ThreadPool pool(1);
  const GradientStep step{
      .lr = 1e-3, .max_grad_norm = 0.5, .rule = RmsProp{.decay = 0.9, .epsilon = 1e-3}};
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 60, c.epsilon, 4);
    rollout.act_at_random();
    for (int i = 0; i < 10; ++i) {
      const double norm =
          learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(60), step)
              .grad_norm;
      const LearnResult expected =
          twin.learn(rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(60), step);
      EXPECT_NEAR(norm, expected.grad_norm, 1e-3 * expected.grad_norm);
    }
    for (const Tensor& tensor : policy->parameters()) {
      for (size_t i = 0; i < tensor.elements(); ++i) {
        // Ten steps of at most about lr / sqrt(1 - decay); relu's slope may jump in one of them.
        ASSERT_NEAR(tensor.data[i], twin.parameters[tensor.name][i], 0.05 * step.lr) << tensor.name;
      }
    }
  }
}

// ---- snapshots ----------------------------------------------------------------------------------

TEST_P(PolicyFacesTest, ASnapshotActsAsThePolicyDidThen) {
  ThreadPool pool(1);
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout before(c.spec, 100, c.epsilon, 4), after(c.spec, 100, c.epsilon, 4);
    before.act(*policy);
    const auto snapshot = policy->snapshot();
    EXPECT_EQ(snapshot->version(), policy->version());
    EXPECT_EQ(snapshot->implementation().name, policy->implementation().name);
    learn(*policy, pool, before.samples(), before.chosen(), Nets::kBoth, Mixture(100), {.lr = 0.1});
    if (c.spec.normalise_obs) {
      const std::vector<float> far(static_cast<size_t>(c.spec.inputs), 100);
      policy->obs_normaliser().update(far.data(), 1, nullptr);
    }
    EXPECT_GT(policy->version(), snapshot->version());
    snapshot->act(0, after.act_rows(0, 100, 0), after.draw());
    EXPECT_EQ(after.actions(), before.actions());
    EXPECT_EQ(after.logprob(), before.logprob());
    EXPECT_EQ(after.value(), before.value());
    after.act(*policy);
    EXPECT_NE(after.value(), before.value()) << "the policy itself has learnt";
  }
}

// A new one may lie where an old one did, which a GPU has recorded; one that is kept stays as it
// is.
TEST_P(PolicyFacesTest, SnapshotsFollowEachOther) {
  constexpr int kRows = 40, kTimes = 3;  // a GPU records the second time and replays the third
  ThreadPool pool(1);
  for (const Case& c : small_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout first(c.spec, kRows, c.epsilon, 4);
    first.act(*policy);
    const auto kept = policy->snapshot();
    const auto expect_same = [&](const ActingPolicy& snapshot, const Rollout& expected) {
      std::vector<std::thread> actors;
      for (int i = 0; i < 2; ++i) {
        actors.emplace_back([&, i] {
          Rollout played(c.spec, kRows, c.epsilon, 4);
          for (int time = 0; time < kTimes; ++time) {
            snapshot.act(i, played.act_rows(0, kRows, 0), played.draw());
            EXPECT_EQ(played.actions(), expected.actions());
            EXPECT_EQ(played.logprob(), expected.logprob());
            EXPECT_EQ(played.value(), expected.value());
          }
        });
      }
      for (std::thread& actor : actors) actor.join();
    };
    for (int update = 0; update < 4; ++update) {
      Rollout expected(c.spec, kRows, c.epsilon, 4);
      expected.act(*policy);
      expect_same(*policy->snapshot(), expected);
      learn(*policy, pool, first.samples(), first.chosen(), Nets::kBoth, Mixture(kRows),
            {.lr = 0.1});
    }
    expect_same(*kept, first);
  }
}

TEST_P(PolicyFacesTest, ActorsUseASnapshotWhileThePolicyLearns) {
  ThreadPool pool(1);
  const Case c = small_cases()[0];
  const auto policy = make(c.spec);
  Rollout rollout(c.spec, 64, c.epsilon, 4), played(c.spec, 64, c.epsilon, 4);
  rollout.act(*policy);
  const auto snapshot = policy->snapshot();
  std::atomic<bool> stop{false};
  std::thread actor([&] {
    while (!stop) snapshot->act(0, played.act_rows(0, 64, 0), played.draw());
  });
  for (int i = 0; i < 20; ++i) {
    learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(64));
  }
  stop = true;
  actor.join();
  snapshot->act(0, played.act_rows(0, 64, 0), played.draw());
  EXPECT_EQ(played.actions(), rollout.actions());
  EXPECT_EQ(played.logprob(), rollout.logprob());
}

}  // namespace
}  // namespace flotilla::test
