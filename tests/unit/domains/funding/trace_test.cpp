// Windows played again: their trades add up to what the environment's book says, and are drawn.
#include "flotilla/domains/funding/evaluation/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "flotilla/core/csv.h"
#include "flotilla/domains/funding/evaluation/hindsight.h"
#include "flotilla/domains/funding/figures/equity_figure.h"
#include "flotilla/domains/funding/figures/window_figure.h"
#include "flotilla/train/baselines.h"
#include "market_support.h"
#include "support/shipped.h"

namespace flotilla::funding {
namespace {

Windows windows_of(const std::vector<std::string>& more, int count) {
  const EnvType& type = test::shipped().find("funding");
  Config config(type.schema);
  for (const std::string& setting : small_market()) config.apply_override(setting);
  for (const std::string& setting : more) {
    config.set(setting.substr(0, setting.find('=')), setting.substr(setting.find('=') + 1));
  }
  return Windows(type, config, count, 3);
}

void expect_book(const Trace& trace, const Portfolio& book, std::map<Closing, int>& closings) {
  double realised_usd = 0, funding = 0, fees = 0;
  int stops = 0, liquidations = 0;
  for (const Trade& trade : trace.trades) {
    realised_usd += realised(trade.pair, kFixed);
    funding += funding_of(trade.pair);
    fees += trade.pair.entry_fee + exit_fee(trade.pair, kFixed);
    stops += trade.by == Closing::kStop;
    liquidations += trade.by == Closing::kLiquidation;
    ++closings[trade.by];
  }
  EXPECT_EQ(static_cast<int>(trace.trades.size()), book.trades);
  EXPECT_NEAR(realised_usd, book.capital - 10'000, 1e-6);
  EXPECT_NEAR(funding, book.funding, 1e-6);
  EXPECT_NEAR(fees, book.fees, 1e-6);
  EXPECT_EQ(stops, book.stops);
  EXPECT_EQ(liquidations, book.liquidations);
  EXPECT_NEAR(trace.equity.back(), book.capital, 1e-6);
  EXPECT_NEAR(std::ranges::max(trace.drawdown), book.max_drawdown, 1e-9);
}

TEST(Trace, HasTheTradesAndTheEquityOfTheBook) {
  const Windows windows = windows_of({"preset=random"}, 40);
  std::map<Closing, int> closings;
  for (const Window& window : windows.play(random_player(windows.env().spec(), 4))) {
    const Trace played = trace(windows.env(), window);
    EXPECT_LE(played.equity.size(), 289u);
    expect_book(played, window.book, closings);
  }
  const Window known = trade_with_hindsight(windows.env(), windows.play(cash_trader())[0]);
  expect_book(trace(windows.env(), known), known.book, closings);
  EXPECT_GT(closings[Closing::kTrader], 100);
  EXPECT_GT(closings[Closing::kStop], 0);
  EXPECT_GT(closings[Closing::kEnd], 0);
}

TEST(TradeLog, HasARowForEveryTrade) {
  const Windows windows = windows_of({}, 5);
  const Funding& env = windows.env();
  const auto played = windows.play(best_apr_trader(env.tables().scaler, env.rules()));
  const CsvTable table = read_csv(trades_csv(env, played, traces(env, played)), "trades");
  double capital = 0, trades = 0, sum = 0;
  for (const Window& window : played) {
    capital += window.book.capital - 10'000;
    trades += window.book.trades;
  }
  ASSERT_EQ(static_cast<double>(table.rows()), trades);
  ASSERT_GT(trades, 3);
  for (size_t row = 0; row < table.rows(); ++row) {
    const auto number = [&](const char* name) { return table.number(row, table.column(name)); };
    sum += number("realised_pnl");
    EXPECT_NEAR(number("funding") + number("price_pnl") - number("fees"), number("realised_pnl"),
                1e-9);
    EXPECT_NEAR(number("margin"), 2 * number("size") / number("leverage"), 1e-9);
    EXPECT_GT(number("hours_held"), 0);
    EXPECT_NE(table.text(row, table.column("long_exchange")),
              table.text(row, table.column("short_exchange")));
  }
  EXPECT_NEAR(sum, capital, 1e-6);
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Figures, DrawWhatWasTraded) {
  const Windows windows = windows_of({}, 5);
  const Funding& env = windows.env();
  const auto played = windows.play(best_apr_trader(env.tables().scaler, env.rules()));
  const auto all = traces(env, played);
  const auto busiest = static_cast<size_t>(
      std::ranges::max_element(all, {}, [](const Trace& each) { return each.trades.size(); }) -
      all.begin());
  const std::string drawn = window_svg(env, played[busiest], all[busiest], "best_apr");
  const std::string symbol = env.tables().market.symbol(all[busiest].trades.front().pair.symbol);
  EXPECT_GE(count_of(drawn, symbol), 2u) << "its price gap and its funding";
  for (const char* word : {">entry<", ">exit<", ">held<", ">equity<", ">drawdown<"}) {
    EXPECT_EQ(count_of(drawn, word), 1u) << word;
  }
  const std::string curves =
      equity_svg({{"trained", all}, {"cash", traces(env, windows.play(cash_trader()))}});
  for (const char* word : {">trained<", ">cash<", ">equity<", ">drawdown<"}) {
    EXPECT_EQ(count_of(curves, word), 1u) << word;
  }
  // Nobody traded.
  EXPECT_GT(window_svg(env, played[0], trace(env, windows.play(cash_trader())[0]), "cash").size(),
            100u);
}

}  // namespace
}  // namespace flotilla::funding
