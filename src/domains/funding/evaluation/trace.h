// A window step by step, played again with the actions that were taken: what the book was worth,
// and every trade that was closed.
#pragma once

#include <vector>

#include "flotilla/domains/funding/evaluation/windows.h"

namespace flotilla::funding {

enum class Closing : uint8_t { kTrader, kStop, kLiquidation, kEnd };

struct Trade {
  Pair pair{};         // as it was closed
  int32_t closed = 0;  // seconds of the market
  Closing by = Closing::kTrader;
};

struct Trace {
  // At the beginning and after each step.
  std::vector<double> equity;
  std::vector<double> drawdown;  // percent below the highest so far
  std::vector<Trade> trades;     // in the order of their closing
};

Trace trace(const Funding& env, const Window& window);
std::vector<Trace> traces(const Funding& env, const std::vector<Window>& windows);

// One row for each trade, with the numbers of the window, counted from 0. In USD where no unit is
// named.
std::string trades_csv(const Funding& env, const std::vector<Window>& windows,
                       const std::vector<Trace>& traces);

}  // namespace flotilla::funding
