#include "flotilla/domains/funding/trading/portfolio.h"

#include <algorithm>

namespace flotilla::funding {
namespace {

constexpr double kSizeParts[kSizes] = {0.10, 0.20, 0.30};
constexpr double kLargestPart = 0.333;  // of the capital, on one side of a pair

double margin_of(double size, const TradingConfig& config) { return 2 * size / config.leverage; }

void note_drawdown(Portfolio& book, double worth) {
  book.peak = std::max(book.peak, worth);
  book.max_drawdown = std::max(book.max_drawdown, 100 * (book.peak - worth) / book.peak);
}

}  // namespace

Portfolio new_portfolio(double capital) {
  Portfolio book{};
  book.capital = book.equity = book.peak = capital;
  return book;
}

double free_margin(const Portfolio& book, const TradingConfig& config) {
  double locked = 0;
  for (int i = 0; i < book.count; ++i) locked += margin_of(book.pairs[i].size, config);
  return book.capital - locked;
}

// The largest is three tenths of the free margin's purchasing power: its own margin always fits.
double entry_size(const Portfolio& book, const TradingConfig& config, int size) {
  const double most = free_margin(book, config) * config.leverage * config.utilization;
  return most / config.max_positions * kSizeParts[size];
}

bool is_accepted(const Portfolio& book, const TradingConfig& config, double size) {
  return book.count < config.max_positions && size > 0 &&
         margin_of(size, config) <= free_margin(book, config) &&
         size <= kLargestPart * book.capital;
}

double total_size(const Portfolio& book) {
  double sum = 0;
  for (int i = 0; i < book.count; ++i) sum += 2 * book.pairs[i].size;
  return sum;
}

double open_funding(const Portfolio& book) {
  double sum = 0;
  for (int i = 0; i < book.count; ++i) sum += funding_of(book.pairs[i]);
  return sum;
}

double equity_of(const Portfolio& book) {
  double sum = book.capital;
  for (int i = 0; i < book.count; ++i) sum += book.pairs[i].value;
  return sum;
}

double least_distance(const Portfolio& book, const Rules& rules) {
  double least = 1;
  for (int i = 0; i < book.count; ++i) {
    least = std::min(least, liquidation_distance(book.pairs[i], rules));
  }
  return least;
}

void close_pair(Portfolio& book, int index, const Rules& rules) {
  const Pair& p = book.pairs[index];
  const double result = realised(p, rules);
  book.capital += result;
  book.funding += funding_of(p);
  book.price_profit += price_profit(p);
  book.fees += p.entry_fee + exit_fee(p, rules);
  book.turnover += 2 * p.size;
  (result > 0 ? book.won : book.lost) += std::fabs(result);
  book.wins += result > 0;
  ++book.trades;
  std::copy(book.pairs + index + 1, book.pairs + book.count, book.pairs + index);
  book.pairs[--book.count] = Pair{};
  if (!rules.fixed) note_drawdown(book, book.capital);
}

void close_all(Portfolio& book, const Rules& rules) {
  while (book.count > 0) close_pair(book, 0, rules);
}

void close_breached(Portfolio& book, const TradingConfig& config, const Rules& rules) {
  for (int i = 0; i < book.count;) {
    const Pair& p = book.pairs[i];
    const bool liquidated = is_liquidated(p, rules);
    if (!liquidated && percent(p, p.value) / 100 >= config.stop_loss) {
      ++i;
      continue;
    }
    ++(liquidated ? book.liquidations : book.stops);
    close_pair(book, i, rules);
  }
}

void settle(Portfolio& book, const Rules& rules) {
  book.equity = equity_of(book);
  if (rules.fixed) note_drawdown(book, book.equity);
}

}  // namespace flotilla::funding
