// What a trader who knew the whole window would have earned: for one position the best sequence of
// trades there is, by dynamic programming over entries and exits; further positions one by one,
// each the best beside those before it. Entries are those the environment offers: rows that are
// shown, the largest size it takes.
#pragma once

#include "flotilla/domains/funding/evaluation/windows.h"

namespace flotilla::funding {

// An entry and its exit, in steps of the window. An exit at its end needs no action.
struct PlannedTrade {
  int enter = 0, exit = 0;
  uint16_t symbol = 0;
  uint8_t direction = 0;
};

// The best trades of one position; `taken` are those of the positions before it, whose steps and
// symbols are not free.
std::vector<PlannedTrade> plan_position(const Funding& env, const Window& window,
                                        const std::vector<PlannedTrade>& taken);

// The same window, traded with hindsight.
Window trade_with_hindsight(const Funding& env, const Window& window);

}  // namespace flotilla::funding
