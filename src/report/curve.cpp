#include "flotilla/report/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace flotilla {
namespace {

// One column of a thinned curve: indices of points.
struct Column {
  size_t first, low, high, last;
};

void add_column(const Curve& from, const Column& column, Curve& to) {
  std::array indices = {column.first, column.low, column.high, column.last};
  std::ranges::sort(indices);
  size_t before = indices[0];
  to.add(from.x[before], from.y[before]);
  for (const size_t index : indices) {
    if (index != before) to.add(from.x[index], from.y[index]);
    before = index;
  }
}

// Summed anew for each window: in a running sum one huge value would spoil all that follow.
double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// On the line between the neighbours of `at`; the last value behind them all.
double value_at(const Curve& curve, double at) {
  const size_t after = static_cast<size_t>(std::ranges::lower_bound(curve.x, at) - curve.x.begin());
  if (after == curve.size()) return curve.y.back();
  if (after == 0 || curve.x[after] == at) return curve.y[after];
  const double part = (at - curve.x[after - 1]) / (curve.x[after] - curve.x[after - 1]);
  return curve.y[after - 1] + part * (curve.y[after] - curve.y[after - 1]);
}

Curve without_gaps(const Curve& curve) {
  Curve result;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (std::isfinite(curve.x[i]) && std::isfinite(curve.y[i])) result.add(curve.x[i], curve.y[i]);
  }
  return result;
}

// Of most neighbours that are there, how many lines apart they are.
size_t usual_distance(const std::vector<size_t>& indices) {
  std::vector<size_t> distances;
  for (size_t i = 1; i < indices.size(); ++i) distances.push_back(indices[i] - indices[i - 1]);
  if (distances.empty()) return 1;
  const auto most =
      distances.begin() + static_cast<std::ptrdiff_t>((distances.size() - 1) * 9 / 10);
  std::ranges::nth_element(distances, most);
  return *most;
}

}  // namespace

Curve thinned(const Curve& curve, size_t buckets) {
  buckets = std::max<size_t>(1, buckets);
  if (curve.size() <= 4 * buckets) return curve;
  const double start = curve.x.front(), span = curve.x.back() - curve.x.front();
  const auto bucket_of = [&](double x) {
    const double part = span > 0 ? (x - start) / span : 0;
    const double bucket = std::floor(part * static_cast<double>(buckets));
    return static_cast<size_t>(std::clamp(bucket, 0.0, static_cast<double>(buckets - 1)));
  };
  Curve result;
  for (size_t begin = 0, end = 0; begin < curve.size(); begin = end) {
    const size_t bucket = bucket_of(curve.x[begin]);
    bool found = false;
    Column column{};
    for (end = begin; end < curve.size() && bucket_of(curve.x[end]) == bucket; ++end) {
      if (!std::isfinite(curve.y[end])) continue;
      if (!found) column = {end, end, end, end};
      found = true;
      if (curve.y[end] < curve.y[column.low]) column.low = end;
      if (curve.y[end] > curve.y[column.high]) column.high = end;
      column.last = end;
    }
    if (found) {
      add_column(curve, column, result);
    } else {
      result.add(curve.x[begin], kNaN);
    }
  }
  return result;
}

std::vector<double> centred_mean(std::span<const double> values, size_t window) {
  std::vector<double> result(values.size(), kNaN);
  size_t piece = 0, end = 0;  // of the values between two gaps
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    if (i >= end) {
      piece = i;
      for (end = i; end < values.size() && std::isfinite(values[end]);) ++end;
    }
    const size_t first = std::max(piece, i - std::min(i, window / 2));
    const size_t last = std::min(end - 1, i + window / 2);
    result[i] = mean_of(values.subspan(first, last - first + 1));
  }
  return result;
}

std::vector<double> trailing_mean(std::span<const double> values, size_t window) {
  std::vector<double> result(values.size(), kNaN), kept;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) kept.push_back(values[i]);
    if (kept.empty()) continue;
    const size_t count = std::min(std::max<size_t>(1, window), kept.size());
    result[i] = mean_of(std::span(kept).last(count));
  }
  return result;
}

Curve present(std::span<const double> x, std::span<const double> y) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isfinite(x[i]) && std::isfinite(y[i])) indices.push_back(i);
  }
  const size_t longest = 2 * usual_distance(indices);
  Curve result;
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t index = indices[i];
    // In the middle, where no value is near that would hide it when the curve is thinned.
    if (i > 0 && index - indices[i - 1] > longest) {
      result.add(x[indices[i - 1]] / 2 + x[index] / 2, kNaN);
    }
    result.add(x[index], y[index]);
  }
  return result;
}

Spread spread_of(std::span<const Curve> curves, size_t points) {
  std::vector<Curve> whole;
  for (const Curve& curve : curves) whole.push_back(without_gaps(curve));
  double start = -std::numeric_limits<double>::infinity(), end = -start;
  for (const Curve& curve : whole) {
    if (curve.empty()) return {};
    start = std::max(start, curve.x.front());
    end = std::min(end, curve.x.back());
  }
  Spread spread;
  if (whole.empty() || !(start <= end)) return spread;
  const double steps = static_cast<double>(std::max<size_t>(2, points) - 1);
  for (double i = 0; i <= steps; ++i) {
    const double at = start + (end - start) * (i / steps);
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Curve& curve : whole) {
      const double value = value_at(curve, at);
      sum += value;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    spread.x.push_back(at);
    spread.mean.push_back(sum / static_cast<double>(whole.size()));
    spread.low.push_back(low);
    spread.high.push_back(high);
  }
  return spread;
}

}  // namespace flotilla
