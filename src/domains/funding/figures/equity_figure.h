// What traders made of the same windows: their equity and their drawdown over time.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/funding/evaluation/trace.h"

namespace flotilla::funding {

struct TracedTrader {
  std::string name;
  std::vector<Trace> traces;  // one for each window
};

// Means over all windows, and for the first trader the range that 8 of 10 windows are in.
std::string equity_svg(const std::vector<TracedTrader>& traders);

}  // namespace flotilla::funding
