// The trader's book: capital, open pairs, and what the closed ones have brought.
//
// Capital changes only when a pair closes, by what it realised. Money is in doubles. A closed pair
// adds its funding, price profit and fees to sums of their own, and funding + price_profit - fees
// is the change of capital but for rounding: of sums below 10^5 USD an addition rounds by less than
// 10^-11, so 10^4 trades stay within 10^-6 USD.
#pragma once

#include <cstdint>

#include "flotilla/domains/funding/trading/pair.h"
#include "flotilla/domains/funding/trading/settings.h"

namespace flotilla::funding {

constexpr int kSizes = 3;

struct Portfolio {
  double capital, equity, peak;
  double max_drawdown;                 // percent
  double funding, price_profit, fees;  // of closed pairs
  double turnover;                     // 2 S of closed pairs
  double won, lost;                    // sums of what those that won and lost realised; lost >= 0
  int32_t trades, wins, liquidations, stops;
  int32_t count;  // open pairs: the first ones of `pairs`, in the order of their opening
  Pair pairs[kMostPairs];

  bool holds(uint16_t symbol) const {
    for (int i = 0; i < count; ++i) {
      if (pairs[i].symbol == symbol) return true;
    }
    return false;
  }
};

Portfolio new_portfolio(double capital);

// Capital that no pair has locked as margin.
double free_margin(const Portfolio& book, const TradingConfig& config);
// USD per side of an entry: 0 small, 1 medium, 2 large.
double entry_size(const Portfolio& book, const TradingConfig& config, int size);
// Whether a pair of so much may be opened.
bool is_accepted(const Portfolio& book, const TradingConfig& config, double size);

double total_size(const Portfolio& book);  // 2 S of open pairs
double open_funding(const Portfolio& book);
// Capital and what open pairs are worth.
double equity_of(const Portfolio& book);
// Of the pair that is nearest; 1 without pairs.
double least_distance(const Portfolio& book, const Rules& rules);

// Closes a pair at its present prices.
void close_pair(Portfolio& book, int index, const Rules& rules);
void close_all(Portfolio& book, const Rules& rules);
// Closes what has crossed its liquidation price, and what has lost more than the stop allows.
void close_breached(Portfolio& book, const TradingConfig& config, const Rules& rules);

// Brings equity and drawdown up to date. The era looks at capital alone, when pairs close.
void settle(Portfolio& book, const Rules& rules);

}  // namespace flotilla::funding
