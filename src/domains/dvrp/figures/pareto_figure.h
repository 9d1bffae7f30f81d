// What negotiation saves against what it asks for: vehicle minutes of a day over the minutes by
// which travellers' windows are moved, a panel for each set of rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/negotiation/judgement.h"

namespace flotilla::dvrp {

// Minutes of a day.
struct Trade {
  double asked = 0;  // by which windows are moved, of all travellers together
  Estimate saved;    // that vehicles drive less
};

struct TradePanel {
  std::string title;
  Trade random, least_detour;
  std::vector<Trade> trained;  // at several prices
  std::optional<Trade> ceiling;
};

std::string pareto_svg(const std::vector<TradePanel>& panels);

}  // namespace flotilla::dvrp
