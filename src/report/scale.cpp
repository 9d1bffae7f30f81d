#include "flotilla/report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "flotilla/report/curve.h"

namespace flotilla {
namespace {

// Far enough from the end of the range of doubles that no sum or difference overflows.
constexpr double kLargest = 1e300;
constexpr double kLeastPositive = 1e-300;
// Below this part of their size, two ends are the same number with rounding errors.
constexpr double kSame = 1e-9;

// 10^k, correctly rounded where std::pow may not be.
double power_of_ten(int exponent) { return std::stod(fmt::format("1e{}", exponent)); }

int decimal_exponent(double value) { return static_cast<int>(std::floor(std::log10(value))); }

// Digits behind the point that numbers `step` apart need.
int decimals(double step) {
  return step >= 1 ? 0 : std::clamp(-decimal_exponent(step * 1.0000001), 0, 9);
}

// "1.5" for "1.50", "2" for "2.0".
std::string without_zeros(std::string text) {
  if (text.find('.') == text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// "5e-5" for "5.0e-05".
std::string scientific(double value, double step) {
  const int digits =
      std::clamp(decimal_exponent(std::abs(value)) - decimal_exponent(step * 1.0000001), 0, 9);
  const std::string text = fmt::format("{:.{}e}", value, digits);
  const size_t e = text.find('e');
  return without_zeros(text.substr(0, e)) + "e" + std::to_string(std::stoi(text.substr(e + 1)));
}

std::vector<Tick> linear_ticks(double low, double high, int count) {
  const double step = round_step(high - low, count);
  const double largest = std::max(std::abs(low), std::abs(high));
  std::vector<Tick> ticks;
  // Ends that are ticks but for rounding errors belong to the range.
  const double slack = step * 1e-6;
  for (double i = std::ceil((low - slack) / step); i * step <= high + slack; ++i) {
    const double value = i * step;
    ticks.push_back({value, tick_label(value, step, largest)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high, int count) {
  const int first = decimal_exponent(low), last = decimal_exponent(high);
  const bool short_range = std::log10(high / low) < 2;
  const int every = std::max(1, (last - first) / std::max(1, count));
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; exponent += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor != 1 && !short_range) continue;
      const double value = factor * power_of_ten(exponent);
      if (value < low * (1 - kSame) || value > high * (1 + kSame)) continue;
      ticks.push_back({value, tick_label(value, value, value)});
    }
  }
  return ticks;
}

}  // namespace

Scale::Scale(Kind kind, double low, double high) : kind_(kind) {
  const double least = kind == Kind::kLog ? kLeastPositive : -kLargest;
  low_ = std::clamp(low, least, kLargest);
  high_ = std::clamp(high, least, kLargest);
  if (low_ > high_) std::swap(low_, high_);
  const double size = std::max(std::abs(low_), std::abs(high_));
  if (high_ - low_ > kSame * size && high_ - low_ > kLeastPositive) return;
  if (kind == Kind::kLog) {
    low_ /= 2;
    high_ *= 2;
  } else {
    const double margin = size > kLeastPositive ? 0.1 * size : 1;
    low_ -= margin;
    high_ += margin;
  }
}

Scale Scale::widened(double part) const {
  if (kind_ == Kind::kLog) {
    const double factor = std::pow(high_ / low_, part);
    return {kind_, low_ / factor, high_ * factor};
  }
  const double margin = part * (high_ - low_);
  return {kind_, low_ - margin, high_ + margin};
}

double Scale::position(double value) const {
  return kind_ == Kind::kLog ? std::log10(value) : value;
}

double Scale::place(double value) const {
  if (!std::isfinite(value) || (kind_ == Kind::kLog && value <= 0)) return kNaN;
  const double start = position(low_);
  return (position(std::clamp(value, -kLargest, kLargest)) - start) / (position(high_) - start);
}

std::vector<Tick> Scale::ticks(int count) const {
  if (kind_ == Kind::kLinear) return linear_ticks(low_, high_, count);
  std::vector<Tick> ticks = log_ticks(low_, high_, count);
  // Less than one power of ten may have one round number or none.
  return ticks.size() >= 2 ? ticks : linear_ticks(low_, high_, count);
}

double round_step(double span, int count) {
  const double least = span / std::max(1, count);
  const int exponent = decimal_exponent(least);
  for (const double factor : {1.0, 2.0, 5.0}) {
    const double step = factor * power_of_ten(exponent);
    if (step >= least * (1 - kSame)) return step;
  }
  return power_of_ten(exponent + 1);
}

std::string tick_label(double value, double step, double largest) {
  if (std::abs(value) < step * 1e-6) return "0";
  if (largest >= 1e15 || step < 1e-4) return scientific(value, step);
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  if (largest >= 1e4) {
    for (const auto& [unit, suffix] : kUnits) {
      if (std::abs(value) < unit) continue;
      // Neighbours may have another unit, so nothing is gained by the same number of digits.
      return without_zeros(fmt::format("{:.{}f}", value / unit, decimals(step / unit))) + suffix;
    }
  }
  return fmt::format("{:.{}f}", value, decimals(step));
}

std::optional<Extent> extent(std::span<const double> values) {
  std::optional<Extent> result;
  for (const double value : values) {
    if (std::isfinite(value)) result = united(result, Extent{value, value});
  }
  return result;
}

std::optional<Extent> united(std::optional<Extent> a, std::optional<Extent> b) {
  if (!a || !b) return a ? a : b;
  return Extent{std::min(a->low, b->low), std::max(a->high, b->high)};
}

}  // namespace flotilla
