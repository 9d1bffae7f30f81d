// The environment against its slow twin: rewards, observations and masks of random episodes.
#include <gtest/gtest.h>

#include "flotilla/domains/funding/market/files.h"
#include "market_support.h"
#include "slow_twin.h"

namespace flotilla::funding {
namespace {

// Both compute in doubles, in another order; what is shown is rounded to float32, and features as
// large as 100 are wrong by 1e-5 then.
void play_twins(const std::vector<std::string>& settings, uint64_t seed, int& trades) {
  const Funding env = small_env(settings);
  Play play(env, seed);
  SlowTwin twin(env.tables().market, env.tables().scaler, env.rules().fixed, play.state);
  Rng draw(seed, stream_of(Purpose::kTest, 0));
  for (int t = 0; !twin.terminated && !twin.truncated; ++t) {
    const std::vector<float> obs = play.obs();
    const std::vector<double> expected = twin.observe();
    ASSERT_EQ(expected.size(), obs.size());
    for (size_t i = 0; i < obs.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(obs[i]), expected[i], 1e-5 * (1 + std::fabs(expected[i])))
          << observation_names()[i] << ", step " << t;
    }
    const std::vector<uint8_t> mask = play.mask();
    ASSERT_EQ(std::vector<int>(mask.begin(), mask.end()), twin.mask()) << "step " << t;
    const int32_t action = draw.below(3) == 0 ? play.random_action(draw, draw.below(4) != 0) : 0;
    const double reward = twin.step(action);
    const Outcome outcome = play.step(action);
    ASSERT_NEAR(static_cast<double>(outcome.reward), reward, 1e-6 * (1 + std::fabs(reward)))
        << "step " << t << ", action " << action;
    ASSERT_EQ(outcome.terminated, twin.terminated);
    ASSERT_EQ(outcome.truncated, twin.truncated);
  }
  EXPECT_NEAR(play.state.book.capital, twin.capital(), 1e-6);
  trades += play.state.book.trades;
}

TEST(FundingTwin, AgreesByTheFixedRules) {
  int trades = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    play_twins({"preset=random"}, seed, trades);
    play_twins({"max_positions=5", "market.symbols=25"}, seed, trades);
  }
  EXPECT_GT(trades, 100);
}

TEST(FundingTwin, AgreesByTheRulesOfTheEra) {
  int trades = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    play_twins({"preset=random", "rules=era"}, seed, trades);
    play_twins({"max_positions=5", "market.symbols=25", "rules=era"}, seed, trades);
  }
  EXPECT_GT(trades, 100);
}

// Half of the way through, every coin is paid at other times on one venue or on both.
TEST(FundingTwin, AgreesWhereVenuesChangeTheirIntervals) {
  Market market = make_market({.days = 4, .symbols = 14, .seed = 3});
  for (int t = market.times() / 2 + 7; t < market.times(); ++t) {
    for (int symbol = 0; symbol < market.symbols(); ++symbol) {
      Cell& cell = market.at(t, symbol);
      cell.hours[symbol % 2] = cell.hours[symbol % 2] == 8 ? 1 : 8;
      if (symbol % 3 == 0) cell.hours[1 - symbol % 2] = 2;
    }
  }
  const Scratch folder;
  write_market(market, folder.path(), Packing::kPlain);
  int trades = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    for (const char* rules : {"rules=fixed", "rules=era"}) {
      play_twins({"data=" + folder.path(), "split.train=1", "split.validation=0",
                  "split.embargo_days=0", "episode_days=2.5", "max_positions=5", rules},
                 seed, trades);
    }
  }
  EXPECT_GT(trades, 100);
}

}  // namespace
}  // namespace flotilla::funding
