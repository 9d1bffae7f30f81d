// The made-up market: its signals by their formulas, its moments, and what training may know of it.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "flotilla/domains/funding/market/facts.h"
#include "flotilla/domains/funding/market/synthetic.h"
#include "market_support.h"

namespace flotilla::funding {
namespace {

const Market& usual_market() {
  static const Market market = make_market({});
  return market;
}

double mean_rate(const Market& market, int time, int symbol, int venue, int samples) {
  double sum = 0;
  int count = 0;
  for (int t = std::max(time - samples + 1, 0); t <= time; ++t, ++count) {
    sum += market.at(t, symbol).quote.rate[venue];
  }
  return sum / count;
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments spread(const Market& market, int time, int symbol, int direction, int samples) {
  const int long_venue = direction == 0 ? 0 : 1;
  std::vector<double> gaps;
  for (int t = std::max(time - samples + 1, 0); t <= time; ++t) {
    const double* price = market.at(t, symbol).quote.price;
    gaps.push_back((price[1 - long_venue] - price[long_venue]) / price[long_venue]);
  }
  Moments result;
  for (const double gap : gaps) result.mean += gap / static_cast<double>(gaps.size());
  for (const double gap : gaps) {
    result.deviation += std::pow(gap - result.mean, 2) / static_cast<double>(gaps.size());
  }
  result.deviation = std::sqrt(result.deviation);
  return result;
}

TEST(Signals, AreThoseOfTheFormulas) {
  const Market market = make_market({.days = 6, .symbols = 5, .seed = 3});
  Rng draw(1, stream_of(Purpose::kTest, 0));
  for (int i = 0; i < 300; ++i) {
    const int t = static_cast<int>(draw.below(static_cast<uint32_t>(market.times())));
    const int symbol = static_cast<int>(draw.below(5)), direction = static_cast<int>(draw.below(2));
    const Cell& cell = market.at(t, symbol);
    const int l = direction == 0 ? 0 : 1, s = 1 - l;
    const auto profit = [&](int samples) {
      const double day = 100 * (mean_rate(market, t, symbol, s, samples) * 24 / cell.hours[s] -
                                mean_rate(market, t, symbol, l, samples) * 24 / cell.hours[l]);
      return day / 3;
    };
    const double expected[] = {profit(1), profit(288), profit(864)};
    const Features row = features_of(cell.signals, direction);
    for (size_t k = 0; k < 3; ++k) {
      ASSERT_NEAR(row[k], expected[k], 1e-6 * (1 + std::fabs(expected[k])));
      ASSERT_NEAR(row[3 + k], 1095 * expected[k], 1e-3 * (1 + std::fabs(expected[k])));
    }
    ASSERT_NEAR(row[6], spread(market, t, symbol, direction, 30).mean, 1e-8);
    ASSERT_NEAR(row[9], spread(market, t, symbol, direction, 30).deviation, 1e-7);
    ASSERT_NEAR(row[7], 100 * spread(market, t, symbol, direction, 288).mean, 1e-6);
    ASSERT_NEAR(row[8], 100 * spread(market, t, symbol, direction, 864).mean, 1e-6);
    ASSERT_NEAR(row[10], expected[0] - expected[1], 1e-5);
    const bool listed = *std::max_element(expected, expected + 3) >= 0.1;
    ASSERT_EQ(cell.listed[direction] != 0, listed);
  }
}

// Of 211,336 rows of two venues in autumn 2025. Means that are small against their deviation differ
// from week to week: those of prices are held to a tenth of it.
TEST(Synthetic, HasTheMomentsOfTheRealMarket) {
  struct Real {
    double mean, deviation;
  };
  constexpr Real kReal[kFeatures] = {
      {0.212876, 0.789627}, {0.136434, 0.460739}, {0.104473, 0.372031},  {233.0987, 864.6418},
      {149.3955, 504.5093}, {114.3982, 407.3740}, {-0.000703, 0.009056}, {-0.025677, 0.744163},
      {0.001242, 0.659668}, {0.001339, 0.003819}, {0.076441, 0.793999}};
  const MarketFacts facts = facts_of(usual_market());
  for (size_t i = 0; i < kFeatures; ++i) {
    SCOPED_TRACE(kFeatureNames[i]);
    const double room = i >= 6 && i <= 8 ? 0.1 * kReal[i].deviation : 0.3 * kReal[i].mean;
    EXPECT_NEAR(facts.features.mean[i], kReal[i].mean, std::fabs(room));
    EXPECT_NEAR(facts.features.deviation[i], kReal[i].deviation, 0.3 * kReal[i].deviation);
  }
  EXPECT_GT(facts.rows_per_time, 30);
  EXPECT_LE(facts.highest_rate, 0.02);
  EXPECT_GE(facts.lowest_rate, -0.02);
}

TEST(Synthetic, DependsOnTheSeedAndTheNumberOfACoinAlone) {
  const Market few = make_market({.days = 2, .symbols = 3, .seed = 8});
  const Market many = make_market({.days = 2, .symbols = 6, .seed = 8});
  const Market other = make_market({.days = 2, .symbols = 3, .seed = 9});
  for (int t = 0; t < few.times(); t += 7) {
    for (int symbol = 0; symbol < 3; ++symbol) {
      ASSERT_EQ(few.at(t, symbol).quote.price[1], many.at(t, symbol).quote.price[1]);
      ASSERT_NE(few.at(t, symbol).quote.price[1], other.at(t, symbol).quote.price[1]);
    }
  }
}

// What was shown before the hour is what the hour pays.
TEST(Synthetic, PaysWhatItShowed) {
  const Market& market = usual_market();
  for (int t = kStepsPerHour; t < market.times(); t += kStepsPerHour) {
    const Quote &before = market.at(t - 1, 5).quote, &paid = market.at(t, 5).quote;
    ASSERT_EQ(before.rate[0], paid.rate[0]);
    ASSERT_EQ(before.rate[1], paid.rate[1]);
  }
}

TEST(Board, RanksTheBestRowsOfATime) {
  const Market& market = usual_market();
  const Scaler scaler = fit_scaler(market, {0, market.times()});
  const Board board(market, scaler, false);
  for (int t = 0; t < market.times(); t += 1000) {
    const Ranking& ranking = board.at(t);
    ASSERT_EQ(ranking.count, kRanked);
    std::set<int> shown;
    for (int i = 0; i < ranking.count; ++i) shown.insert(ranking.rows[i].symbol);
    ASSERT_EQ(shown.size(), size_t{kRanked}) << "a row per symbol";
    for (int symbol = 0; symbol < market.symbols(); ++symbol) {
      for (int direction = 0; direction < kDirections; ++direction) {
        if (market.at(t, symbol).listed[direction] == 0 || shown.contains(symbol)) continue;
        ASSERT_LE(apr_of_row(market.at(t, symbol), direction), ranking.rows[kRanked - 1].apr);
      }
    }
  }
}

TEST(Scaler, KnowsNothingOfWhatTrainingDoesNotShow) {
  const Funding env = small_env();
  const Tables& tables = env.tables();
  const int train = tables.market.times() * 6 / 10;
  const Scaler expected = fit_scaler(tables.market, {0, train});
  const Scaler all = fit_scaler(tables.market, {0, tables.market.times()});
  EXPECT_EQ(tables.scaler.mean, expected.mean);
  EXPECT_EQ(tables.scaler.deviation, expected.deviation);
  EXPECT_NE(tables.scaler.mean, all.mean);
}

TEST(Tables, AreMadeOnceForTheSameSettings) {
  const Funding one = small_env(), same = small_env({"levels=test", "max_positions=4"});
  const Funding other = small_env({"market.seed=2"});
  EXPECT_EQ(&one.tables(), &same.tables());
  EXPECT_NE(&one.tables(), &other.tables());
}

TEST(Payments, AreAlignedToMidnight) {
  EXPECT_EQ(payment_from(1, 8), 8 * kHour);
  EXPECT_EQ(payment_from(8 * kHour, 8), 8 * kHour);
  EXPECT_EQ(payment_from(8 * kHour + 1, 4), 12 * kHour);
  EXPECT_TRUE(is_payment(kDay, 8));
  EXPECT_FALSE(is_payment(kDay + kHour, 8));
}

}  // namespace
}  // namespace flotilla::funding
