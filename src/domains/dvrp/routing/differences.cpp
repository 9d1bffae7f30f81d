#include "flotilla/domains/dvrp/routing/differences.h"

#include <vector>

namespace flotilla::dvrp {

// Bellman and Ford, for the longest chains.
bool has_times(std::span<const Difference> rules, size_t count, double tolerance) {
  std::vector<double> time(count, 0);
  for (size_t round = 0; round <= count; ++round) {
    bool changed = false;
    for (const Difference& rule : rules) {
      const double least = time[rule.sooner] + rule.gap;
      if (least <= time[rule.later] + tolerance) continue;
      time[rule.later] = least;
      changed = true;
    }
    if (!changed) return true;
  }
  return false;
}

}  // namespace flotilla::dvrp
