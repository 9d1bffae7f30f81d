// The price histories of a market: prices/SYMBOL.csv or .csv.gz, every 5 minutes the prices of both
// venues, and the rates where they were paid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/domains/funding/market/market.h"

namespace flotilla {
class CsvTable;
}

namespace flotilla::funding {

// Of one symbol, from its first price to its last, on the grid.
struct PriceSeries {
  std::string symbol;
  int64_t first = 0;            // seconds of the Unix clock
  std::vector<Quote> quotes{};  // with kNoRate where nothing was paid
  int64_t filled = 0;           // times without a price of their own, which have the one before

  int64_t last() const { return first + (static_cast<int64_t>(quotes.size()) - 1) * kStepSeconds; }
};

// In the order of symbols. Throws Error(kData) that names file, line and column.
std::vector<PriceSeries> read_price_files(const std::string& directory);

// Of cells of tables; refuse what is none.
int64_t time_at(const CsvTable& table, size_t row, size_t column);
int64_t grid_time_at(const CsvTable& table, size_t row, size_t column);  // a multiple of 5 minutes
double price_at(const CsvTable& table, size_t row, size_t column);

}  // namespace flotilla::funding
