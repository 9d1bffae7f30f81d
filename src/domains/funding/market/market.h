// A market of perpetual futures: coins that two venues list, on a grid of 5 minutes. Prices,
// funding rates, and the signals that a scanner makes of them. Everything a trader looks up at a
// moment lies side by side: [time][symbol].
//
// A direction says which venue is bought: 0 buys Binance and sells Bybit, 1 the other way round.
//
// Thread safety: immutable once made.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "flotilla/domains/funding/market/large_pages.h"
#include "flotilla/domains/funding/trading/pair.h"

namespace flotilla::funding {

constexpr int kVenues = 2, kDirections = 2;
constexpr std::array<const char*, kVenues> kVenueNames = {"Binance", "Bybit"};

constexpr int kStepSeconds = 300;
constexpr int kStepsPerHour = 3600 / kStepSeconds, kStepsPerDay = 24 * kStepsPerHour;
constexpr int kDay = 24 * kHour;

constexpr int venue_of(int direction, int leg) { return direction ^ leg; }

// By venue.
struct Quote {
  double price[kVenues];
  double rate[kVenues];  // indicative; at the moment of a payment, what is paid
};
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();  // while a market is read

// What the scanner says of both directions of a symbol.
struct Signals {
  // Percent per 8 h of direction 0, the negative of direction 1: at the rates of now, and at their
  // means of 24 h and of 3 days.
  float profit[3];
  // By direction, of (short - long) / long. The first two are parts, of the last 30 samples; the
  // others are percent.
  float spread30[kDirections], volatility30[kDirections];
  float spread24h[kDirections], spread3d[kDirections];
};

// The numbers of a row of the scanner, in the order that policies see them.
constexpr int kFeatures = 11;
constexpr std::array<const char*, kFeatures> kFeatureNames = {
    "fund_profit_8h",          "fund_profit_8h_24h_proj",
    "fund_profit_8h_3d_proj",  "fund_apr",
    "fund_apr_24h_proj",       "fund_apr_3d_proj",
    "spread_30_sample_avg",    "price_spread_24h_avg",
    "price_spread_3d_avg",     "spread_volatility_stddev",
    "fund_profit_8h_minus_24h"};
using Features = std::array<float, kFeatures>;

constexpr float kAprOf8h = 3 * 365;    // percent per year of percent per 8 h
constexpr float kListedProfit = 0.1F;  // percent per 8 h by any horizon: a row of the scanner

struct Cell {
  Quote quote;
  Signals signals;
  uint8_t hours[kVenues];       // between payments
  uint8_t listed[kDirections];  // the scanner has a row
};

inline LegQuotes quotes_of(const Cell& cell, int direction) {
  LegQuotes legs{};
  for (int leg = 0; leg < kLegs; ++leg) {
    const int venue = venue_of(direction, leg);
    legs.price[leg] = cell.quote.price[venue];
    legs.rate[leg] = cell.quote.rate[venue];
    legs.hours[leg] = cell.hours[venue];
  }
  return legs;
}

// Times of the market, from one to before the other.
struct Times {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
};

class Market {
 public:
  Market(int times, std::vector<std::string> symbols, int64_t begin)
      : times_(times),
        symbols_(std::move(symbols)),
        begin_(begin),
        cells_(static_cast<size_t>(times) * symbols_.size()) {}

  int times() const { return times_; }
  int symbols() const { return static_cast<int>(symbols_.size()); }
  const std::string& symbol(int index) const { return symbols_[static_cast<size_t>(index)]; }
  int64_t begin() const { return begin_; }  // seconds of the Unix clock, a midnight

  const Cell& at(int time, int symbol) const { return cells_[index(time, symbol)]; }
  Cell& at(int time, int symbol) { return cells_[index(time, symbol)]; }

  // All times of one symbol, side by side: who goes over them more than once is quicker there.
  std::vector<Cell> column(int symbol) const;
  void set_column(int symbol, std::span<const Cell> cells);

  LegQuotes quotes(int time, int symbol, int direction) const {
    return quotes_of(at(time, symbol), direction);
  }

 private:
  size_t index(int time, int symbol) const {
    return static_cast<size_t>(time) * symbols_.size() + static_cast<size_t>(symbol);
  }
  int times_;
  std::vector<std::string> symbols_;
  int64_t begin_;
  LargeTable<Cell> cells_;
};

// Numbers that are none are 0, endless ones are 100 or -100.
Features features_of(const Signals& signals, int direction);

// Computes the signals of a symbol, and which of its directions are listed, from its prices, rates
// and intervals, at all times.
void add_signals(std::span<Cell> column);

}  // namespace flotilla::funding
