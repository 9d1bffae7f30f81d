// The scale of rows: read as it was written, fitted once and kept by a run.
#include "flotilla/domains/funding/market/scaler.h"

#include <gtest/gtest.h>

#include "flotilla/train/recipes.h"
#include "flotilla/train/run_config.h"
#include "market_support.h"
#include "support/error_text.h"
#include "support/shipped.h"

namespace flotilla::funding {
namespace {

using test::error_text;

RunConfig small_run(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"num_envs=2", "n_steps=16", "ppo.minibatches=2", "net.hidden=8"};
  for (const std::string& setting : small_market()) all.push_back("env." + setting);
  all.insert(all.end(), more.begin(), more.end());
  const Config config = load_run_config(test::shipped(), "funding", true, all);
  return RunConfig(env_of(test::shipped(), config), config);
}

TEST(ScalerText, IsReadAsItWasWritten) {
  const Scaler fitted = small_env().tables().scaler;
  const Scaler read = scaler_of(to_text(fitted));
  EXPECT_EQ(read.mean, fitted.mean);
  EXPECT_EQ(read.deviation, fitted.deviation);
}

TEST(ScalerText, IsRefusedWhereItIsNone) {
  const std::string good = to_text(small_env().tables().scaler);
  const auto refusal = [](const std::string& text) {
    return error_text(ErrorCode::kUsage, [&] { small_env({"scaler=" + text}); });
  };
  const std::string start = "scaler: expected 11 times mean/deviation with spaces between, got ";
  EXPECT_EQ(refusal("1/2"), start + "'1/2'");
  for (const std::string& bad :
       {good + " 1/1", good.substr(0, good.rfind(' ')), "0/0" + good,
        "nan/1" + good.substr(good.find(' ')), "1/-1" + good.substr(good.find(' ')), good + " "}) {
    EXPECT_TRUE(refusal(bad).starts_with(start)) << bad;
  }
}

TEST(Scaler, IsFittedOnceAndKeptByARun) {
  const RunConfig run = small_run();
  const std::string fitted = to_text(small_env().tables().scaler);
  EXPECT_EQ(run.config.get_text("env.scaler"), fitted);
  EXPECT_EQ(run.env_config.get_text("scaler"), fitted) << "which policy files have";
  EXPECT_EQ(run.eval_config.get_text("scaler"), fitted);
  // Another market, or other code that makes it, does not change it.
  const RunConfig other = small_run({"env.market.seed=2", "env.scaler=" + fitted});
  EXPECT_EQ(other.config.get_text("env.scaler"), fitted);
  const Funding env(other.env_config);
  EXPECT_EQ(to_text(env.tables().scaler), fitted);
  EXPECT_NE(to_text(small_env({"market.seed=2"}).tables().scaler), fitted);
}

TEST(Scaler, OfARunIsWhatRowsAreScaledBy) {
  const std::string fitted = to_text(small_env().tables().scaler);
  const Funding own = small_env({"market.seed=2"}),
                kept = small_env({"market.seed=2", "scaler=" + fitted});
  const Play a(own), b(kept);
  ASSERT_EQ(a.state.shown[0].symbol, b.state.shown[0].symbol);
  const Scaler &from = own.tables().scaler, to = scaler_of(fitted);
  for (size_t i = 0; i < kFeatures; ++i) {
    const double raw =
        from.mean[i] + from.deviation[i] * static_cast<double>(a.obs()[kFirstRow + i]);
    EXPECT_NEAR(b.obs()[kFirstRow + i], (raw - to.mean[i]) / to.deviation[i], 1e-4);
  }
}

TEST(TrainedOn, IsWhatWindowsWereDrawnFrom) {
  // 12 days, of which 6 in 10 are for training, the next 2 but for a day of embargo for validation.
  EXPECT_EQ(small_run().config.get_text("env.trained_on"),
            "2025-09-01T00:00:00Z/2025-09-08T04:40:00Z");
  EXPECT_EQ(small_run({"env.levels=validation"}).config.get_text("env.trained_on"),
            "2025-09-09T04:45:00Z/2025-09-10T14:15:00Z");
}

// The best checkpoint is chosen by them.
TEST(Evaluations, AreOfValidationWindowsAndNeverOfTestOnes) {
  const RunConfig run = small_run();
  EXPECT_EQ(run.env_config.get_text("levels"), "train");
  EXPECT_EQ(run.eval_config.get_text("levels"), "validation");
  EXPECT_EQ(small_run({"eval.levels=train"}).eval_config.get_text("levels"), "train");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [] { small_run({"eval.levels=test"}); }),
            "eval.levels: expected one of train, validation, got 'test'");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [] { small_run({"env.episode_days=2"}); }),
            "episode_days: levels=validation has 1.40 days, an episode of 2.00 needs 2.00; "
            "split.train, split.validation and split.embargo_days part the days");
  small_run({"env.episode_days=2", "eval.episodes=0"});
}

TEST(Period, IsReadAsItWasWrittenAndOverlapsWhatTouchesIt) {
  const auto period = parse_period("2025-09-01T00:00:00Z/2025-09-02T00:00:00Z");
  ASSERT_TRUE(period.has_value());
  EXPECT_EQ(period_text(*period), "2025-09-01T00:00:00Z/2025-09-02T00:00:00Z");
  EXPECT_TRUE(overlap(*period, {period->last, period->last + 1}));
  EXPECT_FALSE(overlap(*period, {period->last + 1, period->last + 2}));
  EXPECT_FALSE(overlap({0, period->first - 1}, *period));
  for (const char* bad :
       {"", "2025-09-01T00:00:00Z", "2025-09-02T00:00:00Z/2025-09-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_period(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace flotilla::funding
