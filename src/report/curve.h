// Curves: numbers y over ascending x, with gaps where y is not finite. Thinning for drawing, means
// over neighbours, and means over several curves.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace flotilla {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();  // a gap

struct Curve {
  std::vector<double> x, y;  // of the same size
  size_t size() const { return x.size(); }
  bool empty() const { return x.empty(); }
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

// A curve of at most about 5 * `buckets` points that looks the same when drawn at that many
// columns: of each column the first, the lowest, the highest and the last point are kept (Jugel et
// al., "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014). A column of nothing
// but missing values stays a gap. A curve that is short enough is returned as it is.
Curve thinned(const Curve& curve, size_t buckets);

// The mean of the `window` values around each value, of those that there are near the ends and near
// gaps: a gap stays one, and nothing is mixed across it. Takes time in proportion to size x window.
std::vector<double> centred_mean(std::span<const double> values, size_t window);

// The mean of each value and those before it, `window` of them at most. Missing values are left
// out; the result is missing before the first value only.
std::vector<double> trailing_mean(std::span<const double> values, size_t window);

// The values that are there. Two of them that lie much farther apart than most neighbours do have a
// gap put between them, so that a metric noted with every tenth line is a line, and an hour without
// one is a hole.
Curve present(std::span<const double> x, std::span<const double> y);

// Several curves as one: where all of them have begun and none has ended, the mean, the least and
// the greatest at `points` places.
struct Spread {
  std::vector<double> x, mean, low, high;
};
Spread spread_of(std::span<const Curve> curves, size_t points);

}  // namespace flotilla
