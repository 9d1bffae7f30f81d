// What a policy sees and what it can do: 203 numbers and 36 choices, with their names.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/funding/market/board.h"
#include "flotilla/domains/funding/trading/portfolio.h"

namespace flotilla::funding {

// Where the groups of numbers begin.
constexpr int kConfigNumbers = 5, kPortfolioNumbers = 3, kPairNumbers = 17;
constexpr int kFirstPair = kConfigNumbers + kPortfolioNumbers;
constexpr int kFirstRow = kFirstPair + kMostPairs * kPairNumbers;
constexpr int kObserved = kFirstRow + kShown * kFeatures;
static_assert(kObserved == 203);

// 0: hold; then an entry of each row shown, small, medium, large; then the exit of each pair.
constexpr int kFirstEntry = 1, kFirstExit = kFirstEntry + kSizes * kShown;
constexpr int kActions = kFirstExit + kMostPairs;
static_assert(kActions == 36);

std::vector<std::string> observation_names();
std::vector<std::string> action_names();

}  // namespace flotilla::funding
