// The environment as a whole: masks, rewards, windows, what ends an episode.
#include "flotilla/domains/funding/funding_env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "market_support.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::funding {
namespace {

constexpr int kLargeFirst = kFirstEntry + 2 * kShown, kMediumFirst = kFirstEntry + kShown;

std::set<int> open_actions(const Play& play) {
  std::set<int> open;
  const std::vector<uint8_t> mask = play.mask();
  for (int action = 0; action < kActions; ++action) {
    if (mask[static_cast<size_t>(action)] != 0) open.insert(action);
  }
  return open;
}

TEST(FundingEnv, HasNamesForAllThatIsSeenAndDone) {
  const auto names = observation_names();
  EXPECT_EQ(names.size(), 203u);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), 203u);
  EXPECT_EQ(names[0], "max_leverage");
  EXPECT_EQ(names[8], "pair_1.active");
  EXPECT_EQ(names[93], "row_1.fund_profit_8h");
  EXPECT_EQ(names[202], "row_10.fund_profit_8h_minus_24h");
  EXPECT_EQ(action_names().size(), 36u);
  EXPECT_EQ(action_names()[35], "exit pair_5");
}

TEST(FundingEnv, EarnsNothingAndLastsFiveDaysWhenNothingIsDone) {
  for (const char* rules : {"rules=fixed", "rules=era"}) {
    const Funding env = small_env({rules, "market.days=20", "episode_days=5"});
    Play play(env);
    int steps = 0;
    Outcome outcome;
    while (!outcome.terminated && !outcome.truncated) {
      outcome = play.step(0);
      ASSERT_EQ(outcome.reward, 0);
      ++steps;
    }
    EXPECT_EQ(steps, 1440);
    EXPECT_TRUE(outcome.truncated);
    EXPECT_FALSE(outcome.terminated);
    EXPECT_EQ(play.state.book.capital, 10'000);
  }
}

TEST(FundingEnv, TakesTheSizesOfTheActions) {
  const Funding env = small_env();
  for (int size = 0; size < kSizes; ++size) {
    Play play(env);
    ASSERT_GE(play.state.shown_count, 2);
    play.step(kFirstEntry + size * kShown);
    ASSERT_EQ(play.state.book.count, 1);
    EXPECT_NEAR(play.state.book.pairs[0].size, 800 * (size + 1), 1e-9);
  }
  Play play(env);
  const uint16_t second = play.state.shown[1].symbol;
  play.step(kLargeFirst);
  const auto at = std::find_if(play.state.shown, play.state.shown + play.state.shown_count,
                               [&](const Shown& shown) { return shown.symbol == second; });
  play.step(kMediumFirst + static_cast<int>(at - play.state.shown));
  ASSERT_EQ(play.state.book.count, 2);
  EXPECT_NEAR(play.state.book.pairs[1].size, 1216, 1e-9);
}

TEST(FundingMask, OfAFullBookLeavesHoldAndExits) {
  const Funding env = small_env();
  Play play(env);
  for (int tries = 0; play.state.book.count < 2 && tries < 10; ++tries) {
    for (int row = 0; row < kShown; ++row) {
      if (play.mask()[static_cast<size_t>(kFirstEntry + row)] == 0) continue;
      play.step(kFirstEntry + row);
      break;
    }
  }
  ASSERT_EQ(play.state.book.count, 2);
  EXPECT_EQ(open_actions(play), (std::set<int>{0, kFirstExit, kFirstExit + 1}));
}

// Pairs that were ever opened, after this action.
int opened_after(const Funding& env, Funding::State s, int32_t action) {
  Rng unused;
  env.step(s, ActionRow(&action), unused);
  return s.book.count + s.book.trades;
}

// Every closed entry is refused, every open one accepted.
void expect_exact_masks(const Funding& env, uint64_t seed) {
  Play play(env, seed);
  Rng draw(seed, stream_of(Purpose::kTest, 0));
  for (int t = 0; t < 60; ++t) {
    const std::vector<uint8_t> mask = play.mask();
    const int before = opened_after(env, play.state, 0);
    for (int32_t action = kFirstEntry; action < kFirstExit; ++action) {
      ASSERT_EQ(opened_after(env, play.state, action) - before, mask[static_cast<size_t>(action)])
          << "action " << action << ", step " << t << ", seed " << seed;
    }
    for (int i = 0; i < kMostPairs; ++i) {
      ASSERT_EQ(mask[static_cast<size_t>(kFirstExit + i)], i < play.state.book.count);
    }
    play.step(play.random_action(draw, true));
  }
}

TEST(FundingMask, IsExact) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    expect_exact_masks(small_env({"preset=random", "market.symbols=8"}), seed);
    expect_exact_masks(small_env({"max_leverage=10", "max_positions=1"}), seed);
  }
}

// 10,000 x 10 x 0.8: even the small entry is more than a third of the capital.
TEST(FundingMask, ClosesSizesThatWouldBeRefused) {
  const std::vector<std::string> settings = {"max_leverage=10", "max_positions=1"};
  const Funding env = small_env(settings);
  EXPECT_EQ(open_actions(Play(env)), (std::set<int>{0}));
  std::vector<std::string> era = settings;
  era.emplace_back("rules=era");
  const Funding old = small_env(era);
  Play play(old);
  EXPECT_GT(open_actions(play).size(), 3u) << "the era's mask does not know";
  play.step(kFirstEntry);
  EXPECT_EQ(play.state.book.count, 0);
}

struct Sums {
  double reward_usd = 0;
  Funding::State last{};
  bool terminated = false;
};

Sums play_randomly(const Funding& env, uint64_t seed, bool only_open) {
  Play play(env, seed);
  Rng draw(seed, stream_of(Purpose::kTest, 1));
  Sums sums;
  Outcome outcome;
  while (!outcome.terminated && !outcome.truncated) {
    // Mostly hold, so that pairs live for a while.
    const bool holds = draw.below(4) != 0;
    outcome = play.step(holds ? 0 : play.random_action(draw, only_open));
    sums.reward_usd += static_cast<double>(outcome.reward) * env.initial_capital() / 100;
  }
  sums.last = play.state;
  sums.terminated = outcome.terminated;
  return sums;
}

TEST(FundingAccounting, AddsUpInEveryEpisode) {
  for (const char* rules : {"rules=fixed", "rules=era"}) {
    const Funding env = small_env({rules, "preset=random", "episode_days=2", "market.days=16"});
    int trades = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const Portfolio book = play_randomly(env, seed, seed % 2 == 0).last.book;
      ASSERT_EQ(book.count, 0) << "all pairs are closed at the end";
      ASSERT_NEAR(book.funding + book.price_profit - book.fees, book.capital - 10'000, 1e-6);
      ASSERT_NEAR(book.won - book.lost, book.capital - 10'000, 1e-6);
      trades += book.trades;
    }
    EXPECT_GT(trades, 400);
  }
}

// Rewards are float32: 576 of them, each below 10 percent and so wrong by less than 5e-7 percent of
// 10,000 USD, are wrong by less than 0.03 USD together.
TEST(FundingAccounting, RewardsAreTheChangeOfCapital) {
  const Funding env =
      small_env({"liquidation_scale=0", "episode_days=2", "market.days=16", "max_positions=5"});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Sums sums = play_randomly(env, seed, true);
    EXPECT_NEAR(sums.reward_usd, sums.last.book.capital - 10'000, 0.03);
    EXPECT_GT(sums.last.book.trades, 5);
  }
}

// The era's reward never sees the fee of an exit.
TEST(FundingAccounting, RewardsOfTheEraLackTheFeesOfExits) {
  const Funding env = small_env(
      {"rules=era", "liquidation_scale=0", "episode_days=2", "market.days=16", "max_positions=5"});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Sums sums = play_randomly(env, seed, true);
    const Portfolio& book = sums.last.book;
    EXPECT_NEAR(sums.reward_usd - book.fees / 2, book.capital - 10'000, 0.03);
    EXPECT_GT(book.fees, 1);
  }
}

TEST(FundingReward, HasAPenaltyNearLiquidation) {
  // At leverage 10 the liquidation price is 9 % away: less than the buffer.
  const std::vector<std::string> settings = {"max_leverage=10", "target_utilization=0.1"};
  const auto first_reward = [&](const char* scale) {
    std::vector<std::string> all = settings;
    all.emplace_back(scale);
    const Funding env = small_env(all);
    Play play(env);
    const double reward = static_cast<double>(play.step(kFirstEntry).reward);
    EXPECT_EQ(play.state.book.count, 1);
    return std::pair(reward, 0.15 - least_distance(play.state.book, kFixed));
  };
  const auto [plain, near] = first_reward("liquidation_scale=0");
  const auto [punished, same] = first_reward("liquidation_scale=10");
  EXPECT_EQ(near, same);
  EXPECT_GT(near, 0.05);
  EXPECT_NEAR(punished, plain - 10 * near, 1e-5);
}

TEST(FundingWindows, AreOnTheGridInsideTheirPart) {
  const auto begins = [](const char* levels) {
    const Funding env = small_env({levels, "market.days=20"});
    std::set<int32_t> found;
    for (int i = 0; i < 300; ++i) {
      const Play play(env, 5, i);
      EXPECT_EQ(play.state.begin % kStepSeconds, 0);
      found.insert(play.state.begin / kStepSeconds);
    }
    return found;
  };
  // 20 days: 12 of training, 4 each of validation and test, a day of embargo before both.
  const auto train = begins("levels=train"), validation = begins("levels=validation"),
             test = begins("levels=test");
  EXPECT_GT(train.size(), 250u) << "envs have windows of their own";
  EXPECT_LE(*train.rbegin() + kStepsPerDay, 12 * kStepsPerDay - 1);
  EXPECT_GE(*validation.begin(), 13 * kStepsPerDay);
  EXPECT_LE(*validation.rbegin() + kStepsPerDay, 16 * kStepsPerDay - 1);
  EXPECT_GE(*test.begin(), 17 * kStepsPerDay);
  EXPECT_LE(*test.rbegin() + kStepsPerDay, 20 * kStepsPerDay - 1);
  EXPECT_EQ(*train.rbegin() >= *validation.begin(), false);
}

TEST(FundingWindows, OfTheEraBeginAtAnySecond) {
  const Funding env = small_env({"rules=era"});
  int on_grid = 0;
  for (int i = 0; i < 200; ++i) on_grid += Play(env, 5, i).state.begin % kStepSeconds == 0;
  EXPECT_LT(on_grid, 10);
}

TEST(FundingWindows, AreRefusedWhereThePartIsTooShort) {
  EXPECT_EQ(test::error_text(ErrorCode::kUsage,
                             [] {
                               small_env({"levels=test", "episode_days=3"});
                             }),
            "episode_days: levels=test has 1.40 days, an episode of 3.00 needs 3.00; "
            "split.train, split.validation and split.embargo_days part the days");
  EXPECT_EQ(test::error_text(ErrorCode::kUsage,
                             [] {
                               small_env({"split.train=0.9", "split.validation=0.2"});
                             }),
            "split.validation: with split.train 0.9 expected at most 0.1, got 0.2");
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [] { small_env({"price_scale=2"}); }),
            "price_scale: is a key of rules=era; expected 1, got 2");
}

TEST(FundingPresets, AreThoseOfTheTable) {
  const auto config_of = [](const char* preset) { return Play(small_env({preset})).state.config; };
  EXPECT_EQ(config_of("preset=none").max_positions, 2);
  EXPECT_EQ(config_of("preset=conservative").leverage, 1);
  EXPECT_EQ(config_of("preset=moderate").utilization, 0.6);
  EXPECT_EQ(config_of("preset=aggressive").stop_loss, -0.03);
  const Funding env = small_env({"preset=random"});
  double lowest = 10, highest = 1;
  for (int i = 0; i < 200; ++i) {
    const TradingConfig drawn = Play(env, 3, i).state.config;
    EXPECT_TRUE(is_valid(drawn));
    lowest = std::min(lowest, drawn.leverage);
    highest = std::max(highest, drawn.leverage);
  }
  EXPECT_LT(lowest, 1.5);
  EXPECT_GT(highest, 9.5);
}

TEST(FundingRows, ShowHeldSymbolsAlwaysAndOthersOnce) {
  const Funding env = small_env({"max_positions=5", "market.symbols=40"});
  int off_board = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Play play(env, seed);
    Rng draw(seed, stream_of(Purpose::kTest, 3));
    for (int t = 0; t < 280; ++t) {
      play.step(draw.below(6) == 0 ? play.random_action(draw, true) : 0);
      const Funding::State& s = play.state;
      std::set<int> symbols;
      for (int i = 0; i < s.shown_count; ++i) {
        symbols.insert(s.shown[i].symbol);
        off_board += s.shown[i].rank == kRanked;
        ASSERT_GE(s.shown[std::max(i - 1, 0)].apr, s.shown[i].apr);
      }
      ASSERT_EQ(symbols.size(), static_cast<size_t>(s.shown_count));
      for (int i = 0; i < s.book.count; ++i) {
        ASSERT_TRUE(symbols.contains(s.book.pairs[i].symbol));
      }
    }
  }
  EXPECT_GT(off_board, 100) << "some are held after they have left the board";
}

TEST(FundingRows, ThatAreEmptyAreZeroButForTheEra) {
  const auto last_row = [](const char* rules) {
    const Funding env = small_env({rules, "market.symbols=3"});
    const std::vector<float> obs = Play(env).obs();
    return std::vector<float>(obs.end() - kFeatures, obs.end());
  };
  EXPECT_EQ(last_row("rules=fixed"), std::vector<float>(kFeatures, 0.0F));
  for (const float number : last_row("rules=era")) EXPECT_NE(number, 0);
}

// 8 envs at once are 8 single ones, to the bit.
TEST(FundingEnv, InABatchIsWhatItIsAlone) {
  const Funding env = small_env();
  for (const test::Variant& variant : test::variants(8)) {
    SCOPED_TRACE(variant.name);
    test::Batch batch("funding", small_market(), variant.options);
    batch.reset(11);
    std::vector<Play> alone;
    alone.reserve(8);
    for (int i = 0; i < 8; ++i) alone.emplace_back(env, 11, i);
    Rng draw(4, stream_of(Purpose::kTest, 4));
    for (int t = 0; t < 100; ++t) {
      std::vector<int32_t> actions;
      for (const Play& play : alone) actions.push_back(play.random_action(draw, true));
      batch.step(actions);
      for (size_t i = 0; i < alone.size(); ++i) {
        const Outcome outcome = alone[i].step(actions[i]);
        ASSERT_EQ(outcome.reward, batch.view().reward[i]);
        ASSERT_EQ(alone[i].obs(), batch.obs(static_cast<int>(i)));
      }
    }
  }
}

// The last observation is that of the moment after the last step, with an empty book.
TEST(FundingEnv, IsTruncatedAtTheEndOfItsWindowWithAnObservationToBootstrapFrom) {
  test::Batch batch(
      "funding",
      {"market.days=12", "market.symbols=14", "split.embargo_days=1", "episode_days=0.02"},
      test::serial(1));
  batch.reset(2);
  for (int t = 0; t < 6; ++t) {
    EXPECT_EQ(batch.view().truncated[0], 0);
    batch.step({t == 0 ? kFirstEntry : 0});
  }
  EXPECT_EQ(batch.view().truncated[0], 1);
  EXPECT_EQ(batch.view().terminated[0], 0);
  EXPECT_EQ(batch.view().episode_length[0], 6);
  EXPECT_EQ(batch.final_obs(0)[5], 0) << "no pair is open";
  EXPECT_NE(batch.final_obs(0), batch.obs(0)) << "a new episode has begun";
  EXPECT_EQ(batch.view().metrics[2], 1) << "trades";
}

// Entering and leaving at once loses 0.22 % of a third of the capital each time.
TEST(FundingEnv, EndsWhenAQuarterIsLost) {
  const Funding env = small_env({"max_leverage=1.1", "max_positions=1", "target_utilization=1",
                                 "episode_days=6", "market.days=20"});
  Play play(env);
  Outcome outcome;
  while (!outcome.terminated && !outcome.truncated) {
    ASSERT_LT(play.state.book.max_drawdown, 25);
    const bool open = play.state.book.count > 0;
    outcome = play.step(open ? kFirstExit : kLargeFirst + play.state.shown_count - 1);
  }
  EXPECT_TRUE(outcome.terminated);
  EXPECT_FALSE(outcome.truncated);
  EXPECT_GE(play.state.book.max_drawdown, 25);
  EXPECT_EQ(play.state.book.count, 0);
}

TEST(FundingEnv, KnowsImpossibleStates) {
  const Funding env = small_env();
  Play play(env);
  play.step(kFirstEntry);
  ASSERT_TRUE(env.valid(play.state));
  const auto spoilt = [&](auto change) {
    Funding::State s = play.state;
    change(s);
    return env.valid(s);
  };
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.now += 1; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.now = s.end; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.book.count = 3; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.book.pairs[0].symbol = 14; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.book.pairs[0].next[0] = s.now; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.book.pairs[0].hours[1] = 0; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.shown[0].rank = 200; }));
  EXPECT_FALSE(spoilt([](Funding::State& s) { s.config.leverage = NAN; }));
}

}  // namespace
}  // namespace flotilla::funding
