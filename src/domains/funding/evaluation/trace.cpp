#include "flotilla/domains/funding/evaluation/trace.h"

#include <algorithm>

#include "flotilla/core/csv.h"

namespace flotilla::funding {
namespace {

constexpr const char* kClosingNames[] = {"trader", "stop", "liquidation", "end"};

void note_equity(Trace& trace, const Portfolio& book, double& peak) {
  const double equity = equity_of(book);
  peak = std::max(peak, equity);
  trace.equity.push_back(equity);
  trace.drawdown.push_back(100 * (peak - equity) / peak);
}

// A pair that was open in the state before the step, or opened by it, and is not open any more.
Trade closed_trade(const Funding& env, const Funding::State& before, int32_t action, Pair pair) {
  const int exit = action - kFirstExit;
  if (exit >= 0 && exit < before.book.count && before.book.pairs[exit].symbol == pair.symbol) {
    return {.pair = pair, .closed = before.now, .by = Closing::kTrader};
  }
  const int32_t now = before.now + kStepSeconds;
  mark(pair, env.entry_at(now, pair.symbol, pair.direction).quotes, now, env.rules());
  const bool stopped = percent(pair, pair.value) / 100 < before.config.stop_loss;
  const Closing by = is_liquidated(pair, env.rules()) ? Closing::kLiquidation
                     : stopped                        ? Closing::kStop
                                                      : Closing::kEnd;
  return {.pair = pair, .closed = now, .by = by};
}

void add_trade(CsvWriter& table, const Funding& env, const Window& window, const Trade& trade) {
  const Market& market = env.tables().market;
  const Pair& p = trade.pair;
  const double fee = exit_fee(p, env.rules()), profit = realised(p, env.rules());
  table.add(time_text(market.begin() + p.entered)).add(time_text(market.begin() + trade.closed));
  table.add(market.symbol(p.symbol));
  for (const int leg : {kLong, kShort}) {
    table.add(kVenueNames[static_cast<size_t>(venue_of(p.direction, leg))]);
  }
  table.add(kClosingNames[static_cast<size_t>(trade.by)]);
  table.add(p.size).add(window.config.leverage).add(2 * p.size / window.config.leverage);
  for (const double price : p.entry) table.add(price);
  for (const double price : p.price) table.add(price);
  for (const double rate : p.rate) table.add(rate);
  table.add(funding_of(p)).add(p.funding[kLong]).add(p.funding[kShort]);
  table.add(price_profit(p)).add(p.entry_fee).add(fee).add(p.entry_fee + fee);
  table.add(profit).add(percent(p, profit)).add(hours_held(p, trade.closed));
}

}  // namespace

Trace trace(const Funding& env, const Window& window) {
  Trace trace;
  Funding::State s{};
  env.begin(s, window.begin, window.config);
  double peak = 0;
  note_equity(trace, s.book, peak);
  Rng unused;
  Outcome outcome;
  for (size_t step = 0; !outcome.terminated && !outcome.truncated; ++step) {
    const Funding::State before = s;
    const int32_t action = window.actions.at(step);
    std::vector<Pair> open(s.book.pairs, s.book.pairs + s.book.count);
    if (const auto opened = env.opened_by(s, action)) open.push_back(*opened);
    outcome = env.step(s, ActionRow(&action), unused);
    note_equity(trace, s.book, peak);
    for (const Pair& pair : open) {
      if (s.book.holds(pair.symbol)) continue;
      trace.trades.push_back(closed_trade(env, before, action, pair));
    }
  }
  return trace;
}

std::vector<Trace> traces(const Funding& env, const std::vector<Window>& windows) {
  std::vector<Trace> all;
  for (const Window& window : windows) all.push_back(trace(env, window));
  return all;
}

std::string trades_csv(const Funding& env, const std::vector<Window>& windows,
                       const std::vector<Trace>& traces) {
  CsvWriter table({"window",
                   "entry_time",
                   "exit_time",
                   "symbol",
                   "long_exchange",
                   "short_exchange",
                   "closed_by",
                   "size",
                   "leverage",
                   "margin",
                   "entry_long_price",
                   "entry_short_price",
                   "exit_long_price",
                   "exit_short_price",
                   "long_funding_rate",
                   "short_funding_rate",
                   "funding",
                   "long_funding",
                   "short_funding",
                   "price_pnl",
                   "entry_fee",
                   "exit_fee",
                   "fees",
                   "realised_pnl",
                   "realised_pnl_pct",
                   "hours_held"});
  for (size_t i = 0; i < windows.size(); ++i) {
    for (const Trade& trade : traces[i].trades) {
      table.add(i);
      add_trade(table, env, windows[i], trade);
      table.end_row();
    }
  }
  return table.text();
}

}  // namespace flotilla::funding
