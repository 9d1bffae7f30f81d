// Traders on the same windows: hindsight against every possible plan, and what is said of results.
#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/domains/funding/evaluation/hindsight.h"
#include "flotilla/domains/funding/evaluation/judgement.h"
#include "flotilla/train/baselines.h"
#include "market_support.h"
#include "support/shipped.h"

namespace flotilla::funding {
namespace {

const EnvType& type() { return test::shipped().find("funding"); }

Config config_of(const std::vector<std::string>& more) {
  Config config(type().schema);
  for (const std::string& setting : small_market()) config.apply_override(setting);
  for (const std::string& setting : more) {
    config.set(setting.substr(0, setting.find('=')), setting.substr(setting.find('=') + 1));
  }
  return config;
}

// The most that any sequence of large entries and exits leaves.
double best_of_all(const Funding& env, const Funding::State& s) {
  std::vector<uint8_t> mask(kActions);
  env.mask(s, mask);
  double best = 0;
  for (int32_t action = 0; action < kActions; ++action) {
    const bool smaller = action >= kFirstEntry && action < kFirstExit - kShown;
    if (mask[static_cast<size_t>(action)] == 0 || smaller) continue;
    Funding::State next = s;
    Rng unused;
    const Outcome outcome = env.step(next, ActionRow(&action), unused);
    const bool over = outcome.truncated || outcome.terminated;
    best = std::max(best, over ? next.book.capital : best_of_all(env, next));
  }
  return best;
}

TEST(Hindsight, FindsTheBestPlanOfOnePosition) {
  const Config config = config_of(
      {"market.symbols=4", "max_positions=1", "target_utilization=0.5", "episode_days=0.025"});
  const Windows windows(type(), config, 60, 3);
  ASSERT_EQ(windows.env().steps(), 7);
  int profitable = 0;
  for (const Window& window : windows.play(cash_trader())) {
    Funding::State s{};
    windows.env().begin(s, window.begin, window.config);
    const double best = best_of_all(windows.env(), s);
    EXPECT_NEAR(trade_with_hindsight(windows.env(), window).book.capital, best, 1e-6);
    profitable += best > 10'000;
  }
  EXPECT_GT(profitable, 5);
}

TEST(Hindsight, IsAboveTheRuleAndTheRuleAboveChance) {
  const Windows windows(type(), config_of({"market.symbols=30"}), 20, 3);
  const Funding& env = windows.env();
  const auto rule = windows.play(best_apr_trader(env.tables().scaler, env.rules()));
  const auto random = windows.play(random_player(env.spec(), 4));
  double known = 0, ruled = 0, chance = 0;
  for (size_t i = 0; i < rule.size(); ++i) {
    EXPECT_EQ(rule[i].begin, random[i].begin) << "the same windows";
    const double best = trade_with_hindsight(env, rule[i]).pnl_pct;
    EXPECT_GE(best, rule[i].pnl_pct);
    EXPECT_GE(best, random[i].pnl_pct);
    known += best;
    ruled += rule[i].pnl_pct;
    chance += random[i].pnl_pct;
  }
  EXPECT_GT(known, ruled);
  EXPECT_GT(ruled, chance);
}

TEST(Windows, AreTheSameEveryTime) {
  const Windows windows(type(), config_of({}), 8, 3);
  const Player rule = best_apr_trader(windows.env().tables().scaler, kFixed);
  const auto first = windows.play(rule), second = windows.play(rule);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].begin, second[i].begin);
    EXPECT_EQ(first[i].pnl_pct, second[i].pnl_pct);
  }
}

Window traded(double pnl_pct, int trades, int wins, double won, double lost) {
  Window window;
  window.pnl_pct = pnl_pct;
  window.book.trades = trades;
  window.book.wins = wins;
  window.book.won = won;
  window.book.lost = lost;
  window.book.max_drawdown = 10;
  return window;
}

TEST(Judged, PoolsTheTradesOfAllWindows) {
  const Judged all = judged({traded(2, 3, 2, 300, 100), traded(4, 1, 1, 100, 0)});
  EXPECT_NEAR(all.pnl_pct.mean, 3, 1e-12);
  EXPECT_NEAR(all.pnl_pct.ci95, 1.96, 1e-12);  // deviation sqrt 2, of 2 windows
  EXPECT_NEAR(all.win_rate, 0.75, 1e-12);
  EXPECT_NEAR(all.profit_factor, 4, 1e-12);
  EXPECT_NEAR(all.trades, 2, 1e-12);
  EXPECT_NEAR(all.drawdown_pct, 10, 1e-12);
  // One more loss of 125 makes 400 / 225.
  EXPECT_NEAR(all.score, 0.5 * std::tanh(0.6) + 0.3 * 400 / 450 + 0.2 * 0.9, 1e-12);
}

// The earlier score gave 0.2 for doing nothing, and all of 0.3 for one lucky trade.
TEST(Judged, HasNoScoreForCashAndLittleForALuckyTrade) {
  const Judged cash = judged({traded(0, 0, 0, 0, 0), traded(0, 0, 0, 0, 0)});
  EXPECT_TRUE(std::isnan(cash.score));
  EXPECT_TRUE(std::isnan(cash.win_rate));
  EXPECT_TRUE(std::isnan(cash.profit_factor));
  EXPECT_EQ(cash.pnl_pct.mean, 0);
  const Judged lucky = judged({traded(0, 1, 1, 1, 0), traded(0, 0, 0, 0, 0)});
  EXPECT_TRUE(std::isnan(lucky.profit_factor));
  EXPECT_NEAR(lucky.score, 0.3 * 0.5 + 0.2 * 0.9, 1e-12);
}

}  // namespace
}  // namespace flotilla::funding
