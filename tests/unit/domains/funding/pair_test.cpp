// One pair and one book: worked examples by hand, payments, liquidation, sizes.
#include "flotilla/domains/funding/trading/pair.h"

#include <gtest/gtest.h>

#include "flotilla/domains/funding/trading/portfolio.h"

namespace flotilla::funding {
namespace {

constexpr TradingConfig kUsual = {2, 0.8, 2, -0.02, 0.15};

// The long leg is paid every hour, the short one every 8 hours.
LegQuotes quotes_at(double long_price, double short_price, double long_rate = 0,
                    double short_rate = 0) {
  return {.price = {long_price, short_price}, .rate = {long_rate, short_rate}, .hours = {1, 8}};
}

// 1000 USD a side at leverage 2: long at 100, short at 100.5; payments are in an hour and in eight.
Entry example() {
  return {.size = 1000,
          .leverage = 2,
          .quotes = quotes_at(100, 100.5, -0.001, -0.0004),
          .apr = 832.2F,
          .now = 0,
          .symbol = 3,
          .direction = 1};
}

// An hour later both prices are 101, and the long leg was paid once.
Pair example_after_an_hour(const Rules& rules) {
  Pair pair = open_pair(example(), rules);
  mark(pair, quotes_at(101, 101, -0.001, -0.0004), kHour, rules);
  return pair;
}

TEST(Pair, IsWhatTheWorkedExampleOfTheEraSays) {
  const Pair pair = example_after_an_hour(kEra);
  EXPECT_NEAR(leg_profit(pair, kLong), 10, 1e-9);          // 1000 x 1 / 100
  EXPECT_NEAR(leg_profit(pair, kShort), -4.975124, 1e-6);  // -1000 x 0.5 / 100.5
  EXPECT_NEAR(funding_of(pair), 1, 1e-12);                 // 1000 x 0.001
  EXPECT_NEAR(pair.entry_fee, 0.4, 1e-12);                 // 2000 x 0.0002
  EXPECT_NEAR(pair.value, 5.624876, 1e-6);
  EXPECT_NEAR(percent(pair, pair.value), 0.281244, 1e-6);
  EXPECT_NEAR(pair.liquidation[kLong], 55, 1e-9);                 // 100 x (1 - 0.45)
  EXPECT_NEAR(pair.liquidation[kShort], 145.725, 1e-9);           // 100.5 x 1.45
  EXPECT_NEAR(liquidation_distance(pair, kEra), 0.442822, 1e-6);  // 44.725 / 101
  EXPECT_NEAR(exit_fee(pair, kEra), 0.4, 1e-12);
  EXPECT_NEAR(realised(pair, kEra), 5.224876, 1e-6);
  EXPECT_NEAR(percent(pair, realised(pair, kEra)), 0.261244, 1e-6);
  EXPECT_NEAR(percent_of_8h(pair.rate, pair.hours), 0.76, 1e-9);  // 100 x (8 x 0.001 - 0.0004)
  EXPECT_NEAR(apr_of(pair.rate, pair.hours), 832.2, 1e-6);        // 1095 x 0.76
}

// By hand: the mean entry price is 100.25, so q = 1000 / 100.25 = 9.9750623.
//   prices    q (101 - 100) + q (100.5 - 101) = 0.5 q           =  4.9875312
//   funding   q x 100 x 0.001                                   =  0.9975062
//   fee in    0.00055 x q x (100 + 100.5) = 0.00055 x 2000      =  1.1
//   fee out   0.00055 x q x (101 + 101) = 0.00055 x 2014.962594 =  1.1082294
//   together  4.9875312 + 0.9975062 - 1.1 - 1.1082294           =  3.7768080
TEST(Pair, IsWorthWhatClosingItLeavesByTheFixedRules) {
  const Pair pair = example_after_an_hour(kFixed);
  EXPECT_NEAR(pair.quantity[kLong], 9.9750623, 1e-7);
  EXPECT_EQ(pair.quantity[kLong], pair.quantity[kShort]);
  EXPECT_NEAR(price_profit(pair), 4.9875312, 1e-7);
  EXPECT_NEAR(funding_of(pair), 0.9975062, 1e-7);
  EXPECT_NEAR(pair.entry_fee, 1.1, 1e-12);
  EXPECT_NEAR(exit_fee(pair, kFixed), 1.1082294, 1e-7);
  EXPECT_NEAR(realised(pair, kFixed), 3.776808, 1e-6);
  EXPECT_EQ(realised(pair, kFixed), pair.value);
}

TEST(Pair, OfTheFixedRulesIsNeutralWhenBothPricesMove) {
  const auto price_profit_at = [](const Rules& rules, double factor) {
    Pair pair = open_pair(example(), rules);
    mark(pair, quotes_at(100 + factor, 100.5 + factor), 1, rules);
    return price_profit(pair);
  };
  EXPECT_NEAR(price_profit_at(kFixed, 30), 0, 1e-9);
  EXPECT_GT(price_profit_at(kEra, 30), 1);  // 300 - 298.5
}

TEST(Pair, PaysFeesFromTheFirstMoment) {
  EXPECT_NEAR(open_pair(example(), kFixed).value, -2.2, 1e-12);
  // The era's fee is part of the first change of value.
  Pair pair = open_pair(example(), kEra);
  EXPECT_EQ(pair.value, 0);
  mark(pair, example().quotes, 1, kEra);
  EXPECT_NEAR(pair.value, -0.4, 1e-12);
}

TEST(Funding, OfTheMomentOfEntryIsNotEarned) {
  for (const Rules& rules : {kEra, kFixed}) {
    Entry entry = example();
    entry.now = 8 * kHour;
    Pair pair = open_pair(entry, rules);
    EXPECT_EQ(pair.next[kLong], 9 * kHour);
    EXPECT_EQ(pair.next[kShort], 16 * kHour);
    mark(pair, entry.quotes, 9 * kHour - 1, rules);
    EXPECT_EQ(funding_of(pair), 0);
    mark(pair, entry.quotes, 9 * kHour, rules);
    EXPECT_GT(pair.funding[kLong], 0);
    EXPECT_EQ(pair.funding[kShort], 0);
  }
}

TEST(Funding, IsPaidAsOftenAsItFellDueInAGap) {
  Pair pair = open_pair(example(), kEra);
  mark(pair, example().quotes, 24 * kHour, kEra);
  EXPECT_NEAR(pair.funding[kShort], 3 * -0.4, 1e-12);  // an 8 h interval, a gap of 24 h
  EXPECT_NEAR(pair.funding[kLong], 24 * 1.0, 1e-9);
  mark(pair, example().quotes, 24 * kHour, kEra);
  EXPECT_NEAR(pair.funding[kShort], 3 * -0.4, 1e-12) << "and not twice";
}

// At noon the long venue goes from every hour to every 8, the short one the other way round.
TEST(Funding, FollowsAVenueThatChangesItsInterval) {
  const auto held_until = [](int hour, const Rules& rules) {
    Pair pair = open_pair(example(), rules);
    for (int32_t now = 0; now <= hour * kHour; now += kHour / 12) {
      LegQuotes quotes = example().quotes;
      if (now >= 12 * kHour) std::swap(quotes.hours[kLong], quotes.hours[kShort]);
      mark(pair, quotes, now, rules);
    }
    return pair;
  };
  const double q = 1000 / 100.25;
  EXPECT_NEAR(held_until(12, kFixed).funding[kLong], 12 * q * 100 * 0.001, 1e-9);
  EXPECT_NEAR(held_until(23, kFixed).funding[kLong], 13 * q * 100 * 0.001, 1e-9) << "and at 16";
  EXPECT_NEAR(held_until(23, kFixed).funding[kShort], 12 * q * 100.5 * -0.0004, 1e-9)
      << "at 8, and from 13 to 23";
  EXPECT_NEAR(percent_of_8h(held_until(12, kFixed).rate, held_until(12, kFixed).hours),
              100 * (0.001 - 8 * 0.0004), 1e-9);
  EXPECT_NEAR(held_until(23, kEra).funding[kLong], 23, 1e-9) << "the era did not look";
}

TEST(Liquidation, ClosesByTheFixedRulesAndOnlyWorriesByThoseOfTheEra) {
  const auto at = [](const Rules& rules, double price) {
    Pair pair = open_pair(example(), rules);
    mark(pair, quotes_at(price, 101), 1, rules);
    return pair;
  };
  EXPECT_FALSE(is_liquidated(at(kFixed, 55.01), kFixed));
  EXPECT_TRUE(is_liquidated(at(kFixed, 55), kFixed));
  EXPECT_FALSE(is_liquidated(at(kEra, 20), kEra));
  EXPECT_GT(liquidation_distance(at(kEra, 20), kEra), 0.4) << "it grows again";
}

Portfolio with_pair(double size) {
  Portfolio book = new_portfolio(10'000);
  Entry entry = example();
  entry.size = size;
  book.pairs[book.count++] = open_pair(entry, kFixed);
  return book;
}

TEST(Portfolio, OffersThreeSizesOfWhatIsFree) {
  const Portfolio empty = new_portfolio(10'000);
  EXPECT_NEAR(entry_size(empty, kUsual, 0), 800, 1e-9);
  EXPECT_NEAR(entry_size(empty, kUsual, 1), 1600, 1e-9);
  EXPECT_NEAR(entry_size(empty, kUsual, 2), 2400, 1e-9);
  const Portfolio book = with_pair(2400);
  EXPECT_NEAR(free_margin(book, kUsual), 7600, 1e-9);
  EXPECT_NEAR(entry_size(book, kUsual, 1), 1216, 1e-9);
}

TEST(Portfolio, RefusesMoreThanAThirdOfTheCapitalAndFullBooks) {
  const Portfolio empty = new_portfolio(10'000);
  EXPECT_TRUE(is_accepted(empty, kUsual, 3330));
  EXPECT_FALSE(is_accepted(empty, kUsual, 3330.01));
  EXPECT_FALSE(is_accepted(empty, kUsual, 0));
  EXPECT_TRUE(is_accepted(with_pair(800), kUsual, 800));
  TradingConfig one = kUsual;
  one.max_positions = 1;
  EXPECT_FALSE(is_accepted(with_pair(800), one, 800));
  TradingConfig tight = kUsual;
  tight.leverage = 1;
  EXPECT_FALSE(is_accepted(with_pair(3300), tight, 1800)) << "more margin than is free";
}

TEST(Portfolio, MovesResultsToTheCapitalAndKeepsTheOrder) {
  Portfolio book = new_portfolio(10'000);
  for (uint16_t symbol : {4, 5, 6}) {
    Entry entry = example();
    entry.symbol = symbol;
    book.pairs[book.count++] = open_pair(entry, kFixed);
  }
  mark(book.pairs[1], quotes_at(101, 101, -0.001, -0.0004), kHour, kFixed);
  close_pair(book, 1, kFixed);
  EXPECT_NEAR(book.capital, 10'003.776808, 1e-6);
  EXPECT_NEAR(book.funding + book.price_profit - book.fees, 3.776808, 1e-6);
  EXPECT_EQ(book.count, 2);
  EXPECT_EQ(book.pairs[0].symbol, 4);
  EXPECT_EQ(book.pairs[1].symbol, 6);
  EXPECT_EQ(book.trades, 1);
  EXPECT_EQ(book.wins, 1);
  close_all(book, kFixed);
  EXPECT_EQ(book.wins, 1) << "the others lost their fees";
  EXPECT_NEAR(book.lost, 2 * 2.2, 1e-9);
}

TEST(Portfolio, ClosesWhatHasLostTooMuch) {
  Portfolio book = with_pair(1000);
  // A loss of 40 USD is 2 % of both sides.
  const auto at_loss = [&book](double usd) {
    const double moved = (usd - 2.2) / book.pairs[0].quantity[kLong];
    mark(book.pairs[0], quotes_at(100 - moved, 100.5), 1, kFixed);
    close_breached(book, kUsual, kFixed);
    return book.count;
  };
  EXPECT_EQ(at_loss(39.9), 1);
  EXPECT_EQ(at_loss(40.1), 0);
  EXPECT_EQ(book.stops, 1);
  EXPECT_EQ(book.liquidations, 0);
}

// What the earlier system never saw.
TEST(Drawdown, CountsLossesOfOpenPairsByTheFixedRules) {
  for (const Rules& rules : {kFixed, kEra}) {
    Portfolio book = with_pair(1000);
    mark(book.pairs[0], quotes_at(90, 100.5), 1, rules);
    settle(book, rules);
    if (rules.fixed) {
      EXPECT_NEAR(book.max_drawdown, 100 * (10'000 - book.equity) / 10'000, 1e-9);
      EXPECT_GT(book.max_drawdown, 0.9);
    } else {
      EXPECT_EQ(book.max_drawdown, 0);
      close_all(book, rules);
      EXPECT_GT(book.max_drawdown, 0.9);
    }
  }
}

}  // namespace
}  // namespace flotilla::funding
