#include "flotilla/domains/funding/observation.h"

#include <fmt/format.h>

namespace flotilla::funding {
namespace {

constexpr const char* kFirstNames[kFirstPair] = {"max_leverage",
                                                 "target_utilization",
                                                 "max_positions",
                                                 "stop_loss_threshold",
                                                 "liquidation_buffer",
                                                 "positions",
                                                 "least_liquidation_distance",
                                                 "capital_utilization"};

// Three were velocities once; they stay 0 so that the layout does.
constexpr const char* kPairNames[kPairNumbers] = {
    "active",           "profit",       "log_hours", "price_profit",   "unused_5",
    "funding_8h",       "unused_7",     "price_gap", "unused_9",       "liquidation_distance",
    "apr_ratio",        "apr",          "best_apr",  "apr_above_best", "profit_per_hour",
    "share_of_capital", "leg_imbalance"};

}  // namespace

std::vector<std::string> observation_names() {
  std::vector<std::string> names(kFirstNames, kFirstNames + kFirstPair);
  for (int pair = 1; pair <= kMostPairs; ++pair) {
    for (const char* name : kPairNames) names.push_back(fmt::format("pair_{}.{}", pair, name));
  }
  for (int row = 1; row <= kShown; ++row) {
    for (const char* name : kFeatureNames) names.push_back(fmt::format("row_{}.{}", row, name));
  }
  return names;
}

std::vector<std::string> action_names() {
  std::vector<std::string> names = {"hold"};
  for (const char* size : {"small", "medium", "large"}) {
    for (int row = 1; row <= kShown; ++row)
      names.push_back(fmt::format("enter row_{} {}", row, size));
  }
  for (int pair = 1; pair <= kMostPairs; ++pair) names.push_back(fmt::format("exit pair_{}", pair));
  return names;
}

}  // namespace flotilla::funding
