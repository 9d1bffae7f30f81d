// An algorithm of a user's own, REINFORCE with a baseline of batch means (Williams, 1992): what it
// takes to add one, and that a run with it learns, goes on to the bit, and keeps its keys apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "flotilla/algo/advantage.h"
#include "flotilla/algo/algorithms.h"
#include "flotilla/algo/schedule.h"
#include "flotilla/core/error.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

class LikelierByReturn final : public Objective {
 public:
  LikelierByReturn(const float* weight, size_t rows, float entropy)
      : weight_(weight), scale_(1.0F / static_cast<float>(rows)), entropy_(entropy) {}
  void differentiate(const Rows& rows, double* sums) const override {
    for (int i = 0; i < rows.count; ++i) {
      rows.d_logprob[i] = -weight_[rows.sample[i]] * scale_;
      rows.d_entropy[i] = -entropy_ * scale_;
      rows.d_value[i] = 0;
      sums[0] -= static_cast<double>(weight_[rows.sample[i]] * rows.logprob[i]);
    }
  }

 private:
  const float* weight_;
  float scale_, entropy_;
};

class Reinforce final : public Learner {
 public:
  Reinforce(const Config& section, Policy& policy, ThreadPool& pool)
      : policy_(policy),
        pool_(pool),
        gamma_(section.get_number("gamma")),
        entropy_(section.get_number("entropy")),
        lr_(Schedule::from(section, "lr")) {}

  double gamma() const override { return gamma_; }
  double passes() const override { return 1; }
  void save(Writer& writer) const override { writer.f64("mean_return", mean_return_); }
  void load(Reader& reader) override { mean_return_ = reader.f64("mean_return"); }

  Update learn(const flotilla::Batch& batch, const LearnProgress& progress) override {
    const Trajectory& trajectory = batch.trajectory;
    std::vector<float> weight(trajectory.rows());
    monte_carlo_returns(trajectory, {0, trajectory.envs}, gamma_, weight.data());
    const double mean =
        std::accumulate(weight.begin(), weight.end(), 0.0) / static_cast<double>(weight.size());
    mean_return_ = mean_return_ == 0 ? mean : 0.9 * mean_return_ + 0.1 * mean;
    normalise(weight.data(), trajectory.valid, weight.size(), 1e-8);
    std::vector<int32_t> rows;
    for (size_t i = 0; i < weight.size(); ++i) {
      if (trajectory.valid[i] != 0) rows.push_back(static_cast<int32_t>(i));
    }
    const LossSums sums = policy_.gradient(
        pool_, batch.samples, rows, Nets::kActor,
        LikelierByReturn(weight.data(), rows.size(), static_cast<float>(entropy_)));
    policy_.apply(pool_, Nets::kActor, {.lr = lr_.at(progress.fraction), .rule = RmsProp{}});
    return {.metrics = {{"losses/policy_loss", sums[0] / static_cast<double>(rows.size())},
                        {"charts/mean_return", mean_return_}}};
  }

 private:
  Policy& policy_;
  ThreadPool& pool_;
  const double gamma_, entropy_;
  const Schedule lr_;
  double mean_return_ = 0;
};

Algorithm reinforce() {
  Algorithm algorithm;
  algorithm.name = "reinforce";
  algorithm.summary = "policy gradients by returns alone";
  algorithm.faster = "raise reinforce.lr";
  algorithm.schema.number("gamma", 0.99, {0, 1}, "discount")
      .number("entropy", 0.005, {0, 10}, "weight of the entropy bonus");
  Schedule::add_to(algorithm.schema, "lr", 5e-3, {0, 1}, "learning rate");
  algorithm.needs = {.logprob = false, .values = false};
  algorithm.validate = [](const Config&, int64_t, const NetworkSpec& network) {
    if (network.shared) throw Error(ErrorCode::kUsage, "reinforce trains the actor alone");
  };
  algorithm.make = [](const Config& section, Policy& policy, ThreadPool& pool, uint64_t) {
    return std::make_unique<Reinforce>(section, policy, pool);
  };
  return algorithm;
}

const Algorithms& algorithms() {
  static const Algorithms all = [] {
    Algorithms some = built_in_algorithms();
    some.add(reinforce());
    return some;
  }();
  return all;
}

// ---- what a user of it sees ---------------------------------------------------------------------

Config reinforce_config(std::vector<std::string> more) {
  more.insert(more.begin(), {"algo=reinforce", "num_envs=32", "horizon=256", "net.hidden=32",
                             "eval.episodes=50"});
  return load_run_config(registry(), "cartpole", true, more, algorithms());
}

RunConfig reinforce_run(const std::vector<std::string>& more) {
  return {registry().find("cartpole"), reinforce_config(more), algorithms()};
}

TEST(OwnAlgorithm, LearnsCartPole) {
  for (int seed = 0; seed < (kSanitized ? 1 : 5); ++seed) {
    Trainer trainer(reinforce_run({"steps=1200000", "seed=" + std::to_string(seed)}));
    trainer.train();
    EXPECT_GE(trainer.evaluate().mean, 195) << "seed " << seed;
  }
}

TEST(OwnAlgorithm, GoesOnToTheBit) {
  const std::filesystem::path place = std::filesystem::path(testing::TempDir()) / "reinforce";
  std::filesystem::remove_all(place);
  Trainer undisturbed(reinforce_run({"steps=81920"}));
  undisturbed.train();
  {
    flotilla::Run run(reinforce_run({"steps=40960"}), place);
    run.train();
  }
  const auto resumed = flotilla::Run::resume(
      registry(), place, [](Config& config) { config.set("steps", "81920"); }, std::nullopt,
      algorithms());
  EXPECT_EQ(resumed->trainer().progress().updates, 5);
  resumed->train();
  EXPECT_EQ(resumed->trainer().params_sha256(), undisturbed.params_sha256());
  EXPECT_EQ(resumed->trainer().progress().update.metrics, undisturbed.progress().update.metrics);
}

TEST(OwnAlgorithm, HasItsSectionAndNoOther) {
  EXPECT_EQ(reinforce_config({"reinforce.lr=0.25"}).get_number("reinforce.lr"), 0.25);
  const auto refusal = [](const auto& function) { return error_text(ErrorCode::kUsage, function); };
  EXPECT_EQ(refusal([] { reinforce_config({"ppo.epochs=3"}); }).substr(0, 24),
            "unknown key 'ppo.epochs'");
  EXPECT_EQ(refusal([] {
              load_run_config(registry(), "cartpole", true, {"reinforce.lr=1"}, algorithms());
            }).substr(0, 26),
            "unknown key 'reinforce.lr'");
  EXPECT_EQ(
      refusal(
          [] { load_run_config(registry(), "cartpole", true, {"algo=reinforced"}, algorithms()); }),
      "algo: expected one of ppo, appo, impala, a3c, reinforce, got 'reinforced'; did you mean "
      "'reinforce'?");
  EXPECT_EQ(refusal([] { reinforce_run({"net.shared=true"}); }),
            "reinforce trains the actor alone");
  EXPECT_EQ(refusal([] { load_run_config(registry(), "cartpole", true, {"algo=reinforce"}); }),
            "algo: expected one of ppo, appo, impala, a3c, got 'reinforce'");
}

TEST(OwnAlgorithm, ANameIsTakenOnce) {
  Algorithms all = algorithms();
  EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { all.add(reinforce()); }),
            "algorithm 'reinforce' is registered twice");
}

}  // namespace
}  // namespace flotilla::test
