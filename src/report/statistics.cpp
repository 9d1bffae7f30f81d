#include "flotilla/report/statistics.h"

#include <algorithm>
#include <cmath>

namespace flotilla {

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double mann_whitney(std::span<const double> low, std::span<const double> high) {
  double below = 0;  // pairs in which `low` is below, ties for half
  for (const double a : low) {
    for (const double b : high) below += a < b ? 1 : a == b ? 0.5 : 0;
  }
  std::vector<double> all(low.begin(), low.end());
  all.insert(all.end(), high.begin(), high.end());
  std::ranges::sort(all);
  const auto n = static_cast<double>(all.size());
  double ties = 0;
  for (size_t i = 0; i < all.size();) {
    const auto end = std::ranges::upper_bound(all, all[i]) - all.begin();
    const auto t = static_cast<double>(static_cast<size_t>(end) - i);
    ties += t * t * t - t;
    i = static_cast<size_t>(end);
  }
  const auto pairs = static_cast<double>(low.size()) * static_cast<double>(high.size());
  const double variance = pairs / 12 * (n + 1 - ties / (n * (n - 1)));
  if (!(variance > 0)) return 1;  // all values are the same
  const double z = (below - pairs / 2 - 0.5) / std::sqrt(variance);
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

}  // namespace flotilla
