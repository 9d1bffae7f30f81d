// A market in a directory:
//   opportunities.csv     a row of the scanner for each time, symbol and direction that it lists
//   prices/SYMBOL.csv     prices of both venues every 5 minutes, and rates where they were paid
// Each may be gzipped: .csv.gz.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/funding/market/market.h"

namespace flotilla::funding {

// What reading a market met that a trader should know.
struct FileNotes {
  int64_t rows = 0;           // of opportunities
  int64_t filled_prices = 0;  // times without a price that kept the last one
  int64_t payments = 0;       // rates that were paid
  int64_t unpaid = 0;         // moments of payment with 0: not paid, or paid at rate 0
  int64_t late = 0;           // rows whose next payment is not after them
};

// Begins at the first midnight that the prices have. Rates hold until the next one is known. Throws
// Error(kData) that names file, line and column: columns that are missing, times out of order, off
// the grid or too far apart, prices that are no positive numbers, unknown venues, symbols without
// prices.
Market read_market(const std::string& directory, FileNotes* notes = nullptr);

enum class Packing : uint8_t { kPlain, kGzipped };
// Refuses a directory that holds a market: Error(kUsage).
void write_market(const Market& market, const std::string& directory, Packing packing);

}  // namespace flotilla::funding
