// What the scanner makes of prices and rates.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "flotilla/domains/funding/market/market.h"

namespace flotilla::funding {
namespace {

constexpr int kSamples = 30;  // of the short averages

// Mean and deviation of the last so many numbers of a series; of fewer at its beginning.
class Rolling {
 public:
  explicit Rolling(int length) : length_(static_cast<size_t>(length)) {}

  void add(std::span<const double> series, size_t now) {
    count_ = std::min(now + 1, length_);
    add(series[now], 1);
    if (now >= length_) add(series[now - length_], -1);
  }
  double mean() const { return sum_ / static_cast<double>(count_); }
  double deviation() const {
    const double variance = squares_ / static_cast<double>(count_) - mean() * mean();
    return std::sqrt(std::max(variance, 0.0));
  }

 private:
  void add(double number, double sign) {
    sum_ += sign * number;
    squares_ += sign * number * number;
  }
  size_t length_, count_ = 0;
  double sum_ = 0, squares_ = 0;
};

// Percent per 8 h of direction 0.
float profit_8h(const double rate[kVenues], const uint8_t hours[kVenues]) {
  return static_cast<float>(percent_of_8h(rate, hours));
}

void add_profits(std::span<Cell> column) {
  std::vector<double> rates[kVenues];
  for (int venue = 0; venue < kVenues; ++venue) {
    rates[venue].reserve(column.size());
    for (const Cell& cell : column) rates[venue].push_back(cell.quote.rate[venue]);
  }
  Rolling day[kVenues] = {Rolling(kStepsPerDay), Rolling(kStepsPerDay)};
  Rolling days[kVenues] = {Rolling(3 * kStepsPerDay), Rolling(3 * kStepsPerDay)};
  for (size_t t = 0; t < column.size(); ++t) {
    for (int venue = 0; venue < kVenues; ++venue) {
      day[venue].add(rates[venue], t);
      days[venue].add(rates[venue], t);
    }
    Cell& cell = column[t];
    const double mean_24h[kVenues] = {day[0].mean(), day[1].mean()};
    const double mean_3d[kVenues] = {days[0].mean(), days[1].mean()};
    cell.signals.profit[0] = profit_8h(cell.quote.rate, cell.hours);
    cell.signals.profit[1] = profit_8h(mean_24h, cell.hours);
    cell.signals.profit[2] = profit_8h(mean_3d, cell.hours);
  }
}

void add_spreads(std::span<Cell> column, int direction) {
  std::vector<double> spread;
  spread.reserve(column.size());
  for (const Cell& cell : column) {
    const LegQuotes quotes = quotes_of(cell, direction);
    spread.push_back(quotes.price[kShort] / quotes.price[kLong] - 1);
  }
  Rolling recent(kSamples), day(kStepsPerDay), days(3 * kStepsPerDay);
  for (size_t t = 0; t < spread.size(); ++t) {
    for (Rolling* each : {&recent, &day, &days}) each->add(spread, t);
    Signals& signals = column[t].signals;
    signals.spread30[direction] = static_cast<float>(recent.mean());
    signals.volatility30[direction] = static_cast<float>(recent.deviation());
    signals.spread24h[direction] = static_cast<float>(100 * day.mean());
    signals.spread3d[direction] = static_cast<float>(100 * days.mean());
  }
}

float finite(float number) {
  if (std::isnan(number)) return 0;
  return std::isinf(number) ? std::copysign(100.0F, number) : number;
}

void list(Cell& cell) {
  for (int direction = 0; direction < kDirections; ++direction) {
    const Features row = features_of(cell.signals, direction);
    cell.listed[direction] = *std::max_element(row.begin(), row.begin() + 3) >= kListedProfit;
  }
}

}  // namespace

Features features_of(const Signals& s, int direction) {
  const float sign = direction == 0 ? 1.0F : -1.0F;
  Features row{};
  for (size_t i = 0; i < 3; ++i) {
    row[i] = sign * s.profit[i];
    row[3 + i] = kAprOf8h * row[i];
  }
  row[6] = s.spread30[direction];
  row[7] = s.spread24h[direction];
  row[8] = s.spread3d[direction];
  row[9] = s.volatility30[direction];
  row[10] = row[0] - row[1];
  for (float& number : row) number = finite(number);
  return row;
}

void add_signals(std::span<Cell> column) {
  add_profits(column);
  for (int direction = 0; direction < kDirections; ++direction) add_spreads(column, direction);
  for (Cell& cell : column) list(cell);
}

std::vector<Cell> Market::column(int symbol) const {
  std::vector<Cell> cells;
  cells.reserve(static_cast<size_t>(times_));
  for (int t = 0; t < times_; ++t) cells.push_back(at(t, symbol));
  return cells;
}

void Market::set_column(int symbol, std::span<const Cell> cells) {
  for (int t = 0; t < times_; ++t) at(t, symbol) = cells[static_cast<size_t>(t)];
}

}  // namespace flotilla::funding
