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
  int64_t missing = 0;        // numbers of rows that are empty or not finite; policies see 0 or 100
  int64_t odd_prices = 0;     // rows whose entry price is not that of the price file
  int64_t odd_aprs = 0;       // rows whose percent of a year are not those of 8 hours
  int64_t late = 0;           // next payments that are not after their row
  int64_t unscheduled = 0;  // next payments that are, but not at the next multiple of the interval
  int64_t between = 0;      // payments of price files at other times than the interval's
  std::vector<std::string> partial;  // symbols that have prices for some of the days only
};

// From the first midnight that any symbol has prices of to the last price of any. Before its first
// price and after its last a symbol is not listed, its price stands still, and nothing is paid.
// Rates hold until the next one is known. Throws Error(kData) that names file, line and column:
// columns that are missing, prices out of order, off the grid or too far apart, prices that are no
// positive numbers, unknown venues, symbols without prices, rows at times without.
Market read_market(const std::string& directory, FileNotes* notes = nullptr);

enum class Packing : uint8_t { kPlain, kGzipped };
// Refuses a directory that holds a market, and tables too large to be read: Error(kUsage).
void write_market(const Market& market, const std::string& directory, Packing packing);

}  // namespace flotilla::funding
