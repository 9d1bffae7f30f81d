// Training in the negotiation: the same parameters for any number of threads, a stopped run that
// goes on as if it had not been, ratios of 1 with masks and epsilon, and travellers that are known
// after a few rollouts.
#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"
#include "support/build.h"

namespace flotilla::dvrp::test {
namespace {

RunConfig run_with(const std::vector<std::string>& overrides) {
  const Config config = load_run_config(flotilla::test::shipped(), "dvrp", false, overrides);
  return RunConfig(env_of(flotilla::test::shipped(), config), config);
}

constexpr int64_t kSteps = flotilla::test::kSanitized ? 250 : 400;

// A rollout ends in the middle of the episodes, and there is a lesson behind every second one.
RunConfig run_of(std::vector<std::string> more) {
  std::vector<std::string> overrides = {"num_envs=10",
                                        "horizon=5",
                                        "steps=" + std::to_string(kSteps),
                                        "env.customers=8",
                                        "net.hidden=16",
                                        "ppo.epochs=2",
                                        "ppo.minibatches=2",
                                        "ppo.minibatch_size=0",
                                        "env.advice.every=2",
                                        "eval.episodes=0"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return run_with(overrides);
}

std::string trained(const std::vector<std::string>& layout) {
  Trainer trainer(run_of(layout));
  trainer.train(nullptr);
  return trainer.params_sha256();
}

double fact(const Trainer& trainer, const std::string& name) {
  for (const auto& [each, value] : trainer.memory_facts()) {
    if (each == name) return value;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(NegotiationTraining, DoesNotDependOnTheThreads) {
  const std::string expected = trained({"backend=serial", "threads=1"});
  EXPECT_EQ(trained({"backend=threads", "threads=3"}), expected);
  if (flotilla::test::kSanitized) return;
  EXPECT_EQ(trained({"backend=serial", "threads=3"}), expected);
  for (const char* threads : {"threads=1", "threads=2"}) {
    EXPECT_EQ(trained({"backend=threads", threads}), expected) << threads;
  }
  EXPECT_NE(trained({"backend=serial", "threads=1", "seed=1"}), expected);
}

TEST(NegotiationTraining, LessonsInTheBackgroundChangeNothing) {
  const std::vector<std::string> layout = {"backend=threads", "threads=2"};
  std::vector<std::string> background = layout;
  background.emplace_back("env.advice.background=true");
  EXPECT_EQ(trained(background), trained(layout));
}

// Four environments play a day: that is one number about days, not four.
TEST(NegotiationTraining, TheIntervalIsOfDaysNotOfReplicas) {
  constexpr size_t kSaving = 2, kDays = 5, kReplicas = 4;
  Trainer trainer(run_of({"num_envs=20", "replicas=4", "horizon=8"}));
  trainer.iterate();
  const std::vector<Episode>& ended = trainer.ended_episodes();
  ASSERT_EQ(ended.size(), kDays * kReplicas);
  ASSERT_EQ(trainer.env_spec().metrics[kSaving], "saving_pct");
  std::vector<double> days(kDays, 0);
  for (const Episode& each : ended) {
    days[static_cast<size_t>(each.env) / kReplicas] +=
        static_cast<double>(each.metrics[kSaving]) / kReplicas;
  }
  double mean = 0, squares = 0;
  for (const double day : days) mean += day / kDays;
  for (const double day : days) squares += (day - mean) * (day - mean);
  const EndedEpisodes& told = trainer.progress().ended;
  EXPECT_NEAR(told.metrics[kSaving], mean, 1e-9);
  EXPECT_NEAR(told.metrics_ci95[kSaving], 1.96 * std::sqrt(squares / (kDays - 1) / kDays), 1e-9);
}

TEST(NegotiationTraining, TwoHundredRequestsTrain) {
  Trainer trainer(run_of({"env.customers=200", "env.travellers=200", "num_envs=2", "horizon=200",
                          "env.oracle.kind=continued", "env.oracle.improve=0",
                          "env.oracle.refine=0", "env.advice.epochs=2", "steps=400"}));
  trainer.train(nullptr);
  EXPECT_EQ(trainer.progress().episodes, 2);
  EXPECT_EQ(trainer.progress().env_failures, 0);
  EXPECT_EQ(fact(trainer, "flexibility/answers"), 400);
}

TEST(NegotiationTraining, GoesOnFromTheMiddleOfAnEpisode) {
  std::vector<std::vector<std::string>> cases = {
      {"env.reward=counterfactual", "env.advice.types=true", "ppo.phases=separate"},
      {"env.reward=marginal", "env.observation=detours"},
      {"env.reward=marginal", "env.advice.background=true"},
      {"env.reward=temporal", "env.observation=list"},
      {"env.reward=temporal", "env.observation=list", "env.oracle.kind=continued"}};
  if (flotilla::test::kSanitized) cases.resize(1);
  for (std::vector<std::string> settings : cases) {
    SCOPED_TRACE(settings[0]);
    settings.insert(settings.end(), {"backend=threads", "threads=2"});
    const RunConfig run = run_of(settings);
    const std::string expected = trained(settings);
    // Before a lesson, and right behind one.
    for (const int iterations : {3, 4}) {
      Trainer first(run);
      for (int i = 0; i < iterations; ++i) first.iterate();
      Writer writer;
      first.save(writer);
      Trainer second(run);
      second.policy().set_parameters(first.policy().parameters());
      second.policy().set_optimiser(first.policy().optimiser());
      Reader reader(writer.buffer(), "saved");
      second.load(reader);
      EXPECT_EQ(second.knowledge(), first.knowledge());
      EXPECT_EQ(second.memory_facts(), first.memory_facts());
      second.train(nullptr);
      EXPECT_EQ(second.progress().steps, kSteps);
      EXPECT_EQ(second.params_sha256(), expected) << iterations;
    }
  }
}

TEST(NegotiationTraining, TheFirstRatioIsOneWithMasksAndEpsilon) {
  for (const char* phases : {"ppo.phases=joint", "ppo.phases=separate"}) {
    Trainer trainer(run_of({phases, "ppo.epsilon=0.2", "ppo.epsilon_schedule=linear"}));
    while (!trainer.finished()) {
      trainer.iterate();
      EXPECT_EQ(trainer.progress().update.first_ratio_error, 0) << phases;
    }
    EXPECT_GT(fact(trainer, "flexibility/answers"), 0);
  }
}

TEST(NegotiationTraining, TravellersAreKnownAfterTwentyRollouts) {
  Trainer trainer(
      run_with({"net.hidden=16", "ppo.epochs=1", "eval.episodes=0", "env.observation=list",
                "env.oracle.kind=insertion", "env.oracle.improve=0", "env.oracle.refine=0"}));
  EXPECT_LT(fact(trainer, "flexibility/right"), 0.6);
  for (int i = 0; i < 20; ++i) trainer.iterate();
  EXPECT_GE(fact(trainer, "flexibility/right"), 0.9);
  EXPECT_EQ(fact(trainer, "flexibility/answers"), 20 * 30 * 64);
}

}  // namespace
}  // namespace flotilla::dvrp::test
