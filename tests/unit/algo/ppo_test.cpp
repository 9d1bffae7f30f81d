// PPO: the loss against finite differences, one recorded update of another implementation, and
// the order in which phases, epochs and minibatches are worked through.
#include "flotilla/algo/ppo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "flotilla/algo/ppo_objective.h"
#include "flotilla/core/rng.h"
#include "flotilla/nn/make_policy.h"
#include "support/error_text.h"
#include "support/golden.h"

namespace flotilla::test {
namespace {

// ---- the loss --------------------------------------------------------------------------------

struct Row {
  float logprob, entropy, value, old_logprob, old_value, advantage, target;
};

// The loss of one row in double precision, from its definition.
double loss_of(const PpoObjective& o, const Row& row, double logprob, double entropy,
               double value) {
  const double ratio = std::exp(logprob - static_cast<double>(row.old_logprob));
  const double clip = static_cast<double>(o.clip);
  const double raw = o.advantage_from_value ? static_cast<double>(row.target - row.value)
                                            : static_cast<double>(row.advantage);
  const double a =
      (raw - static_cast<double>(o.advantage_mean)) * static_cast<double>(o.advantage_scale);
  const double policy = -std::min(ratio * a, std::clamp(ratio, 1 - clip, 1 + clip) * a);
  const double target = static_cast<double>(row.target), old = static_cast<double>(row.old_value);
  double square = (value - target) * (value - target);
  if (o.value_clip > 0) {
    const double range = static_cast<double>(o.value_clip);
    const double held = old + std::clamp(value - old, -range, range) - target;
    square = std::max(square, held * held);
  }
  return static_cast<double>(o.row_weight) * (policy + static_cast<double>(o.value_coef) * square -
                                              static_cast<double>(o.entropy_coef) * entropy);
}

TEST(PpoObjective, DerivativesAgreeWithDifferences) {
  Rng rng(7, stream_of(Purpose::kTest, 1));
  const auto draw = [&] { return static_cast<float>(rng.normal()); };
  for (const float value_clip : {0.0F, 0.3F}) {
    for (const bool from_value : {false, true}) {
      PpoObjective o;
      o.clip = 0.2F;
      o.value_clip = value_clip;
      o.advantage_from_value = from_value;
      o.entropy_coef = 0.03F;
      o.row_weight = 0.25F;
      o.advantage_mean = 0.1F;
      o.advantage_scale = 1.7F;
      for (int round = 0; round < 500; ++round) {
        const Row row{0.4F * draw() - 1, 1 + 0.1F * draw(), draw(), -1, draw(), draw(), draw()};
        const int32_t sample = 0;
        float d_logprob = 0, d_entropy = 0, d_value = 0;
        double sums[Objective::kSums] = {};
        o.old_logprob = &row.old_logprob;
        o.old_value = &row.old_value;
        o.advantage = &row.advantage;
        o.target = &row.target;
        o.differentiate(
            {1, &sample, &row.logprob, &row.entropy, &row.value, &d_logprob, &d_entropy, &d_value},
            sums);
        const auto slope = [&](double dl, double de, double dv) {
          const double l = static_cast<double>(row.logprob), e = static_cast<double>(row.entropy);
          const double v = static_cast<double>(row.value);
          return (loss_of(o, row, l + dl, e + de, v + dv) -
                  loss_of(o, row, l - dl, e - de, v - dv)) /
                 2e-6;
        };
        // Differences tell nothing at the edge of a clip.
        const double ratio = std::exp(static_cast<double>(row.logprob) + 1);
        if (std::abs(std::abs(ratio - 1) - 0.2) > 1e-4) {
          EXPECT_NEAR(static_cast<double>(d_logprob), slope(1e-6, 0, 0), 2e-4);
        }
        EXPECT_NEAR(static_cast<double>(d_entropy), slope(0, 1e-6, 0), 1e-6);
        EXPECT_NEAR(static_cast<double>(d_value), slope(0, 0, 1e-6), 2e-4);
      }
    }
  }
}

TEST(PpoObjective, SumsByHand) {
  // Ratios 1, e^0.5 = 1.6487 and e^-1 = 0.3679; advantages 2, 1, -1.
  const float old_logprob[] = {-1, -1, -1}, old_value[] = {0, 0, 0};
  const float advantage[] = {2, 1, -1}, target[] = {1, 0, 3};
  const float logprob[] = {-1, -0.5F, -2}, entropy[] = {0.5F, 0.25F, 0.25F}, value[] = {0, 2, 1};
  const int32_t sample[] = {0, 1, 2};
  float d_logprob[3], d_entropy[3], d_value[3];
  double sums[Objective::kSums] = {};
  PpoObjective o;
  o.old_logprob = old_logprob;
  o.old_value = old_value;
  o.advantage = advantage;
  o.target = target;
  o.entropy_coef = 0.1F;
  o.row_weight = 1;
  o.differentiate({3, sample, logprob, entropy, value, d_logprob, d_entropy, d_value}, sums);
  EXPECT_NEAR(sums[PpoObjective::kPolicyLoss], -2 - 1.2 + 0.8, 1e-6);
  EXPECT_NEAR(sums[PpoObjective::kValueLoss], 1 + 4 + 4, 1e-6);
  EXPECT_NEAR(sums[PpoObjective::kEntropy], 1, 1e-6);
  EXPECT_EQ(sums[PpoObjective::kClipped], 2);
  EXPECT_NEAR(sums[PpoObjective::kKl], (0.648721 - 0.5) + (-0.632121 + 1), 1e-5);
  EXPECT_FLOAT_EQ(d_logprob[0], -2);
  EXPECT_EQ(d_logprob[1], 0) << "beyond the clip, in the direction of the advantage";
  EXPECT_EQ(d_logprob[2], 0);
  EXPECT_FLOAT_EQ(d_value[1], 2);  // 0.5 * 2 * (2 - 0)
}

// ---- a recorded update -------------------------------------------------------------------------

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<float> numbers(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(numbers.data()),
            static_cast<std::streamsize>(numbers.size() * sizeof(float)));
  return numbers;
}

struct Recorded {
  static constexpr int kEnvs = 4, kSteps = 100, kInputs = 77;
  Json json = test::golden_json("ppo_update/update.json");
  std::vector<float> obs, reward, value, logprob, last_value = std::vector<float>(kEnvs);
  std::vector<int32_t> action;
  std::vector<uint8_t> terminated, none, valid;

  Recorded() {
    const std::string tail = json["tail"].text();
    for (int t = 0; t < kSteps; ++t) {
      for (const Json& episode : json["episodes"]) {
        for (const char digit : episode["obs"][static_cast<size_t>(t)].text()) {
          const int bits = std::stoi(std::string(1, digit), nullptr, 16);
          for (int b = 3; b >= 0; --b) obs.push_back(static_cast<float>(bits >> b & 1));
        }
        for (const char bit : tail) obs.push_back(bit == '1' ? 1.0F : 0.0F);
        action.push_back(episode["action"][static_cast<size_t>(t)].get<int32_t>());
        reward.push_back(episode["reward"][static_cast<size_t>(t)].get<float>());
        terminated.push_back(t == kSteps - 1);
      }
    }
    none.resize(action.size());
    valid.assign(action.size(), 1);
  }

  static NetworkSpec network() {
    NetworkSpec spec;
    spec.inputs = kInputs;
    spec.hidden = {64, 64};
    spec.action = ActionSpace::discrete(145);
    return spec;
  }

  Samples samples() const {
    return {.obs = reinterpret_cast<const std::byte*>(obs.data()),
            .mask = nullptr,
            .latent = reinterpret_cast<const std::byte*>(action.data())};
  }
};

void load_parameters(Policy& policy, const std::string& file) {
  const std::vector<float> all = read_floats(source_dir() + "/tests/golden/ppo_update/" + file);
  Tensors tensors = make_parameters(policy.spec());
  size_t at = 0;
  for (Tensor& tensor : tensors) {
    ASSERT_LE(at + tensor.elements(), all.size());
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(at), tensor.elements(),
                tensor.data.begin());
    at += tensor.elements();
  }
  ASSERT_EQ(at, all.size());
  policy.set_parameters(tensors);
}

TEST(Ppo, RepeatsARecordedUpdate) {
  Recorded recorded;
  for (const Json& run : recorded.json["runs"]) {
    SCOPED_TRACE(run["name"].text());
    ThreadPool pool(1);
    auto policy = make_fused_policy(Recorded::network(), 1, 0),
         scratch = make_fused_policy(Recorded::network(), 1, 0);
    load_parameters(*policy, "params_init.f32");
    load_parameters(*scratch, "params_init.f32");
    recorded.logprob.resize(recorded.action.size());
    recorded.value.resize(recorded.action.size());
    std::vector<int32_t> all(recorded.action.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    scratch->evaluate(pool, recorded.samples(), all,
                      {.logprob = recorded.logprob.data(), .value = recorded.value.data()});
    // Of episode 0, which is every fourth row.
    for (size_t t = 0; t < 8; ++t) {
      EXPECT_NEAR(recorded.logprob[4 * t], recorded.json["logprob_first8"][t].get<float>(), 2e-6);
    }

    PpoOptions options;
    options.returns = Returns::kMonteCarlo;
    options.returns_epsilon = run["return_epsilon"].get<double>();
    options.epochs = run["epochs"].get<int>();
    options.minibatches = 1;
    options.lr = {.first = 0.002, .last = 0.002};
    options.clip = {.first = 0.2, .last = 0.2};
    options.entropy = {.first = 0.01, .last = 0.01};
    options.adam_beta2 = 0.99;
    options.adam_epsilon = 1e-8;
    options.max_grad_norm = run["max_grad_norm"].get<double>();
    Ppo ppo(*policy, pool, options, 3);
    const PpoUpdate update = ppo.update({.trajectory = {.steps = Recorded::kSteps,
                                                        .envs = Recorded::kEnvs,
                                                        .reward = recorded.reward.data(),
                                                        .terminated = recorded.terminated.data(),
                                                        .truncated = recorded.none.data(),
                                                        .valid = recorded.valid.data(),
                                                        .value = recorded.value.data(),
                                                        .final_value = nullptr,
                                                        .last_value = recorded.last_value.data()},
                                         .samples = recorded.samples(),
                                         .logprob = recorded.logprob.data()},
                                        {});

    EXPECT_EQ(update.first_ratio_error, 0);
    double policy_loss = 0, value_loss = 0, entropy = 0, norm = 0;
    const auto epochs = static_cast<double>(run["expected"].size());
    for (const Json& expected : run["expected"]) {
      policy_loss += expected["policy_loss"].get<double>() / epochs;
      value_loss += expected["value_loss"].get<double>() / epochs;
      entropy += expected["entropy"].get<double>() / epochs;
      norm += expected["grad_norm"].get<double>() / epochs;
    }
    EXPECT_NEAR(update.policy_loss, policy_loss, 1e-5);
    EXPECT_NEAR(0.5 * update.value_loss, value_loss, 1e-5);
    EXPECT_NEAR(update.entropy, entropy, 1e-5);
    EXPECT_NEAR(update.grad_norm, norm, 1e-5);
    auto expected = make_fused_policy(Recorded::network(), 1, 0);
    load_parameters(*expected, "params_" + run["name"].text() + ".f32");
    const Tensors ours = policy->parameters(), theirs = expected->parameters();
    for (size_t i = 0; i < ours.size(); ++i) {
      for (size_t k = 0; k < ours[i].elements(); ++k) {
        ASSERT_NEAR(ours[i].data[k], theirs[i].data[k], 1e-5) << ours[i].name << " " << k;
      }
    }
  }
}

// ---- phases, epochs, minibatches
// -------------------------------------------------------------------

// Records what it is asked to learn.
class Notebook final : public Policy {
 public:
  struct Entry {
    Nets nets;
    std::vector<int32_t> rows;
    double lr = 0;
  };
  using Policy::Policy;

  Implementation implementation() const override { return {.kind = "notebook", .name = ""}; }
  void act(int, const ActRows&, const Draw&) const override {}
  void value(int, const std::byte*, int, float*) const override {}
  void evaluate(ThreadPool&, const Samples&, std::span<const int32_t>, const RowTerms&) override {}
  LossSums gradient(ThreadPool&, const Samples&, std::span<const int32_t> chosen, Nets nets,
                    const Objective&) override {
    entries.push_back({nets, {chosen.begin(), chosen.end()}});
    LossSums sums;
    sums.of[PpoObjective::kKl] = kl * static_cast<double>(chosen.size());
    return sums;
  }
  GradientView gradient_view() override { return {}; }
  double apply(ThreadPool&, Nets nets, const GradientStep& step) override {
    EXPECT_EQ(nets, entries.back().nets);
    entries.back().lr = step.lr;
    return 0;
  }
  std::shared_ptr<const ActingPolicy> snapshot() const override { return nullptr; }
  Tensors parameters() const override { return {}; }
  void set_parameters(const Tensors&) override {}
  Tensors optimiser() const override { return {}; }
  void set_optimiser(const Tensors&) override {}

  std::vector<Entry> entries;
  double kl = 0;
};

class PpoOrder : public testing::Test {
 protected:
  static constexpr int kSteps = 8, kEnvs = 5;
  PpoOrder() {
    spec_.inputs = 1;
    spec_.action = ActionSpace::discrete(2);
    valid_[7] = valid_[21] = 0;
    options_.lr = {Schedule::Shape::kLinear, 1.0, 0.0};
  }

  PpoUpdate learn(Notebook& policy, double progress = 0, int threads = 1, uint64_t seed = 1) {
    ThreadPool pool(threads);
    Ppo ppo(policy, pool, options_, seed);
    const Trajectory trajectory{.steps = kSteps,
                                .envs = kEnvs,
                                .reward = zeros_.data(),
                                .terminated = no_.data(),
                                .truncated = no_.data(),
                                .valid = valid_.data(),
                                .value = zeros_.data(),
                                .final_value = zeros_.data(),
                                .last_value = zeros_.data()};
    return ppo.update({trajectory, {}, zeros_.data()}, {.fraction = progress});
  }

  NetworkSpec spec_;
  PpoOptions options_;
  std::vector<float> zeros_ = std::vector<float>(kSteps * kEnvs);
  std::vector<uint8_t> no_ = std::vector<uint8_t>(kSteps * kEnvs);
  std::vector<uint8_t> valid_ = std::vector<uint8_t>(kSteps * kEnvs, 1);
};

// A policy that took everything with probability `kActed` and takes it with `ratio` times that now,
// and learns nothing.
class Doubtful final : public Policy {
 public:
  static constexpr float kActed = 0.4F;
  Doubtful(const NetworkSpec& spec, float ratio)
      : Policy(spec), logprob_(std::log(kActed * ratio)) {}
  Implementation implementation() const override { return {.kind = "doubtful", .name = ""}; }
  void act(int, const ActRows&, const Draw&) const override {}
  void value(int, const std::byte*, int count, float* out) const override {
    std::fill_n(out, count, 0.0F);
  }
  void evaluate(ThreadPool&, const Samples&, std::span<const int32_t> chosen,
                const RowTerms& out) override {
    std::fill_n(out.logprob, chosen.size(), logprob_);
    std::fill_n(out.value, chosen.size(), 0.0F);
  }
  LossSums gradient(ThreadPool&, const Samples&, std::span<const int32_t> chosen, Nets,
                    const Objective& objective) override {
    const size_t n = chosen.size();
    const std::vector<float> now(n, logprob_), none(n);
    slope.resize(n);
    std::vector<float> unused(n);
    LossSums sums;
    objective.differentiate({static_cast<int>(n), chosen.data(), now.data(), none.data(),
                             none.data(), slope.data(), unused.data(), unused.data()},
                            sums.of);
    return sums;
  }
  GradientView gradient_view() override { return {}; }
  double apply(ThreadPool&, Nets, const GradientStep&) override { return 0; }
  std::shared_ptr<const ActingPolicy> snapshot() const override { return nullptr; }
  Tensors parameters() const override { return {}; }
  void set_parameters(const Tensors&) override {}
  Tensors optimiser() const override { return {}; }
  void set_optimiser(const Tensors&) override {}

  std::vector<float> slope;  // of the rows of the last gradient, by their log-probabilities

 private:
  float logprob_;
};

// The slope of an update's loss, times its rows, where every step had this reward and the policy
// has gone from the one that acted by this ratio.
float slope_of_appo(float ratio, float reward) {
  constexpr int kSteps = 4, kEnvs = 3, kRows = kSteps * kEnvs;
  NetworkSpec spec;
  spec.inputs = 1;
  spec.action = ActionSpace::discrete(2);
  Doubtful policy(spec, ratio);
  ThreadPool pool(1);
  PpoOptions options;
  options.returns = Returns::kVtrace;
  options.advantage_scale = AdvantageScale::kNone;
  options.gamma = 0;
  options.epochs = options.minibatches = 1;
  options.clip = {.first = 0.2, .last = 0.2};
  const std::vector<float> rewards(kRows, reward), zeros(kRows);
  const std::vector<float> acted(kRows, std::log(Doubtful::kActed));
  const std::vector<std::byte> obs((kRows + kEnvs) * spec.obs_bytes());
  const std::vector<uint8_t> no(kRows), yes(kRows, 1);
  const Trajectory trajectory{.steps = kSteps,
                              .envs = kEnvs,
                              .reward = rewards.data(),
                              .terminated = no.data(),
                              .truncated = no.data(),
                              .valid = yes.data(),
                              .value = zeros.data(),
                              .final_value = zeros.data(),
                              .last_value = zeros.data()};
  Ppo(policy, pool, options, 1).update({trajectory, {.obs = obs.data()}, acted.data()}, {});
  for (const float slope : policy.slope) EXPECT_EQ(slope, policy.slope[0]);
  return kRows * policy.slope[0];
}

// Less likely actions have smaller weights; those of more likely ones end at 1.
TEST(Appo, CountsTheRatioToThePolicyThatActedOnce) {
  EXPECT_FLOAT_EQ(slope_of_appo(1, 1), -1);
  EXPECT_FLOAT_EQ(slope_of_appo(0.9F, 1), -0.9F);
  EXPECT_FLOAT_EQ(slope_of_appo(0.5F, 1), -0.5F);
  EXPECT_FLOAT_EQ(slope_of_appo(1.1F, 1), -1);
}

// An update may go a clip further than those before it went since the policy acted, but no further
// than two clips in all.
TEST(Appo, StaysWithinTwoClipsOfThePolicyThatActed) {
  EXPECT_FLOAT_EQ(slope_of_appo(1.19F, 1), -1);
  EXPECT_FLOAT_EQ(slope_of_appo(1.43F, 1), -1.43F / 1.2F);
  EXPECT_EQ(slope_of_appo(1.45F, 1), 0);
  EXPECT_FLOAT_EQ(slope_of_appo(0.81F, -1), 0.81F);
  EXPECT_FLOAT_EQ(slope_of_appo(0.65F, -1), 0.65F);
  EXPECT_EQ(slope_of_appo(0.63F, -1), 0);
  EXPECT_FLOAT_EQ(slope_of_appo(1.45F, -1), 1.45F / 1.2F) << "back towards it";
  EXPECT_FLOAT_EQ(slope_of_appo(0.63F, 1), -0.63F) << "back towards it";
}

TEST_F(PpoOrder, EveryEpochSeesEveryValidRowOnce) {
  options_.epochs = 3;
  options_.minibatches = 4;
  Notebook policy(spec_);
  const PpoUpdate update = learn(policy, 0.25);
  ASSERT_EQ(policy.entries.size(), 12u);
  EXPECT_EQ(update.epochs, 3);
  std::set<std::vector<int32_t>> orders;
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> seen;
    for (size_t m = 0; m < 4; ++m) {
      const auto& rows = policy.entries[4 * epoch + m].rows;
      EXPECT_NEAR(static_cast<double>(rows.size()), 38 / 4.0, 1);
      EXPECT_EQ(policy.entries[4 * epoch + m].lr, 0.75);
      seen.insert(seen.end(), rows.begin(), rows.end());
    }
    orders.insert(seen);
    const std::set<int32_t> distinct(seen.begin(), seen.end());
    EXPECT_EQ(seen.size(), 38u);
    EXPECT_EQ(distinct.size(), 38u);
    EXPECT_FALSE(distinct.contains(7) || distinct.contains(21));
  }
  EXPECT_EQ(orders.size(), 3u) << "epochs are shuffled anew";
}

TEST_F(PpoOrder, ShufflesDependOnTheSeedAndNotOnThreads) {
  Notebook one(spec_), two(spec_), other(spec_);
  learn(one, 0, 1);
  learn(two, 0, 3);
  learn(other, 0, 1, 2);
  EXPECT_EQ(one.entries[0].rows, two.entries[0].rows);
  EXPECT_EQ(one.entries.back().rows, two.entries.back().rows);
  EXPECT_NE(one.entries[0].rows, other.entries[0].rows);
}

TEST_F(PpoOrder, SeparatePhasesTrainTheValueFirst) {
  options_.separate = true;
  options_.value_epochs = 4;
  options_.policy_epochs = 2;
  options_.minibatches = 1;
  options_.value_lr = 0.125;
  Notebook policy(spec_);
  learn(policy);
  ASSERT_EQ(policy.entries.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(policy.entries[i].nets, i < 4 ? Nets::kCritic : Nets::kActor);
    EXPECT_EQ(policy.entries[i].lr, i < 4 ? 0.125 : 1.0);
  }
}

TEST_F(PpoOrder, DivergenceEndsThePolicysEpochsOnly) {
  options_.separate = true;
  options_.value_epochs = 3;
  options_.policy_epochs = 5;
  options_.minibatches = 1;
  options_.target_kl = 0.01;
  Notebook policy(spec_);
  policy.kl = 0.02;
  const PpoUpdate update = learn(policy);
  EXPECT_TRUE(update.stopped_by_kl);
  ASSERT_EQ(policy.entries.size(), 4u) << "three of the value, one of the policy";
}

TEST_F(PpoOrder, MinibatchSizeCounts) {
  options_.minibatch_size = 10;
  options_.epochs = 1;
  Notebook policy(spec_);
  learn(policy);
  EXPECT_EQ(policy.entries.size(), 4u);  // 38 rows
}

TEST_F(PpoOrder, ContradictionsAreRefusedByName) {
  const auto refusal = [&](int64_t batch) {
    return error_text(ErrorCode::kUsage, [&] { options_.validate(batch, spec_); });
  };
  options_.minibatch_size = 65;
  EXPECT_NE(refusal(64).find("ppo.batch_size 65 is larger"), std::string::npos);
  options_.minibatch_size = 0;
  options_.minibatches = 65;
  EXPECT_NE(refusal(64).find("ppo.minibatches 65 is more"), std::string::npos);
  options_.minibatches = 4;
  options_.separate = true;
  spec_.shared = true;
  EXPECT_NE(refusal(64).find("net.shared=false"), std::string::npos);
  spec_.shared = false;
  options_.returns = Returns::kMonteCarlo;
  EXPECT_NE(refusal(64).find("ppo.returns=gae"), std::string::npos);
  options_ = {};
  options_.epsilon.first = 0.1;
  spec_.action = ActionSpace::box({-1}, {1});
  EXPECT_NE(refusal(64).find("discrete action space"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::test
