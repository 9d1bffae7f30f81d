// What the scanner wrote: opportunities.csv, a row for each time, symbol and direction that it
// lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/core/csv.h"
#include "flotilla/domains/funding/market/files.h"
#include "flotilla/domains/funding/market/market.h"

namespace flotilla::funding {

class Opportunities {
 public:
  // `priced`: the times at which each symbol has prices, some of them before the market begins.
  // Throws Error(kData) that names line and column: a row of another time, an unknown symbol or
  // venue, a column that is missing.
  Opportunities(CsvTable table, const Market& market, std::span<const Times> priced);

  // By symbol, whether it has any: what is between its payments is a guess otherwise.
  std::vector<bool> listed(const Market& market) const;
  // Intervals between payments hold until others are known; before the first, that one.
  void add_intervals(Market& market) const;
  // Where nothing was paid, what the scanner knew.
  void add_rates(Market& market) const;
  // The rows themselves. Counts what looks odd.
  void add_rows(Market& market, FileNotes& notes) const;

 private:
  struct Columns {
    explicit Columns(const CsvTable& table);
    size_t time, symbol;
    size_t venue[kLegs], price[kLegs], rate[kLegs], hours[kLegs], next[kLegs];
    size_t profit[3], apr[3];  // now, and by the means of 24 h and of 3 days
    size_t spread30, volatility30, spread24h, spread3d;
  };
  // Where a row belongs. Before the market begins: nowhere.
  struct Place {
    int time, symbol, direction;
    bool in_market() const { return time >= 0; }
  };

  Place place_of(const Market& market, size_t row, std::span<const Times> priced) const;
  int venue_at(size_t row, size_t column) const;
  uint8_t hours_at(size_t row, size_t column) const;
  void add_signals_of(size_t row, Signals& signals, int direction) const;
  // Refuses what is no price or time; counts what looks odd.
  void check_row(const Market& market, size_t row, FileNotes& notes) const;

  const CsvTable table_;
  const Columns columns_;
  std::vector<Place> places_;  // by row
};

}  // namespace flotilla::funding
