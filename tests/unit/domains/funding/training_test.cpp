// Training on many environments at once, where the earlier system went wrong: episodes that never
// ended, windows that were all the same or never again, schedules that stood still.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "market_support.h"
#include "support/batch.h"
#include "support/shipped.h"

namespace flotilla::funding {
namespace {

// Episodes of 24 steps.
RunConfig run_of(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"env.market.days=12",
                                  "env.market.symbols=14",
                                  "env.split.embargo_days=1",
                                  "env.episode_days=0.0833",
                                  "num_envs=4",
                                  "n_steps=8",
                                  "total_timesteps=384",
                                  "net.hidden=8",
                                  "ppo.minibatches=2",
                                  "normalize_obs=true",
                                  "ppo.learning_rate_schedule=linear",
                                  "eval.episodes=2"};
  all.insert(all.end(), more.begin(), more.end());
  const Config config = load_run_config(test::shipped(), "funding", true, all);
  return RunConfig(env_of(test::shipped(), config), config);
}

double metric(const Progress& progress, const std::string& name) {
  const auto& metrics = progress.update.metrics;
  return std::ranges::find(metrics, name, &Metric::first)->second;
}

// Updates of 8 steps, episodes of 24: whoever began anew with every update would see no end.
TEST(FundingTraining, PlaysEpisodesToTheirEndAcrossUpdates) {
  Trainer trainer(run_of());
  trainer.train();
  EXPECT_EQ(trainer.progress().updates, 12);
  EXPECT_EQ(trainer.progress().episodes, 4 * 96 / 24);
  EXPECT_EQ(trainer.progress().length_mean, 24);
}

TEST(FundingTraining, CountsFinishedEpisodesAndNotUpdates) {
  Trainer trainer(run_of({"episodes=6", "total_timesteps=0"}));
  trainer.train();
  EXPECT_EQ(trainer.progress().episodes, 8) << "the update in which the sixth of 4 envs ends";
  EXPECT_EQ(trainer.progress().updates, 6);
}

TEST(FundingTraining, FollowsItsSchedulesWithManyEnvironments) {
  Trainer trainer(run_of());
  std::vector<double> rates;
  trainer.train(
      [&](const Progress& progress) { rates.push_back(metric(progress, "charts/learning_rate")); });
  ASSERT_EQ(rates.size(), 12u);
  EXPECT_NEAR(rates.front(), 3e-4, 1e-12);
  EXPECT_NEAR(rates.back(), 3e-4 / 12, 1e-12);
}

// Each environment has windows of its own, and the same ones with the same seed.
TEST(FundingTraining, DrawsWindowsByTheSeedAndTheNumberOfTheEnvironment) {
  const auto first_rows = [](uint64_t seed) {
    test::Batch batch("funding", small_market(), test::serial(8));
    batch.reset(seed);
    std::vector<std::string> rows;
    for (int i = 0; i < 8; ++i) rows.push_back(batch.row(i));
    return rows;
  };
  const auto rows = first_rows(5);
  EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), 8u);
  EXPECT_EQ(first_rows(5), rows);
  EXPECT_NE(first_rows(6), rows);
}

TEST(FundingTraining, GoesOnToTheBitWithTheScalerOfTheRun) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("flotilla-funding-run-" + std::to_string(getpid()));
  const std::string constant = "ppo.learning_rate_schedule=constant";
  Trainer whole(run_of({constant}));
  whole.train();
  {
    flotilla::Run run(run_of({constant, "total_timesteps=160"}), path);
    run.train();
    run.finish();
  }
  const auto longer = [](Config& config) { config.set("total_timesteps", "384"); };
  const auto resumed = flotilla::Run::resume(test::shipped(), path, longer);
  EXPECT_EQ(resumed->config().config.get_text("env.scaler"), to_text(small_env().tables().scaler));
  resumed->train();
  resumed->finish();
  EXPECT_EQ(resumed->trainer().params_sha256(), whole.params_sha256());
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace flotilla::funding
