// Tests of whether a difference is more than chance.
#pragma once

#include <span>
#include <vector>

namespace flotilla {

double median(std::vector<double> values);  // NaN for none

// The probability that the values of `low` would lie as far below those of `high` as they do if
// both came from the same distribution: Mann and Whitney (1947), by the normal approximation with
// its corrections for ties and continuity. Good from about 8 values each on.
double mann_whitney(std::span<const double> low, std::span<const double> high);

}  // namespace flotilla
