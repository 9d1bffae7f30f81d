// The best rows of the scanner at each time, ready to be shown: ranked by their APR of now, with
// their features in the scale that policies see.
#pragma once

#include <cstdint>

#include "flotilla/domains/funding/market/market.h"
#include "flotilla/domains/funding/market/scaler.h"
#include "flotilla/domains/funding/trading/settings.h"

namespace flotilla::funding {

constexpr int kShown = 10;
// As many more as pairs can be open: where their symbols are shown anyway, others move up.
constexpr int kRanked = kShown + kMostPairs;

struct Row {
  Features features;  // scaled
  float apr;          // percent
  uint16_t symbol;
  uint8_t direction;
};

struct Ranking {
  int32_t count;
  Row rows[kRanked];
};

class Board {
 public:
  // `both_directions`: a symbol may have two rows; otherwise the better one counts.
  Board(const Market& market, const Scaler& scaler, bool both_directions);

  const Ranking& at(int time) const { return rankings_[static_cast<size_t>(time)]; }

 private:
  LargeTable<Ranking> rankings_;
};

// Percent of a year in this direction, at the rates of now.
inline float apr_of_row(const Cell& cell, int direction) {
  const float apr = kAprOf8h * cell.signals.profit[0];
  return direction == 0 ? apr : -apr;
}
// A row as a board has it, of any symbol.
Row row_of(const Market& market, const Scaler& scaler, int time, int symbol, int direction);

}  // namespace flotilla::funding
