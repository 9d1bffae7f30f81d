#include "flotilla/domains/funding/market/opportunities.h"

#include <algorithm>
#include <cmath>

#include "flotilla/core/text.h"
#include "flotilla/domains/funding/market/price_files.h"
#include "flotilla/domains/funding/market/time_text.h"

namespace flotilla::funding {
namespace {

// Symbols are in order. -1: there is none.
int find_symbol(const Market& market, std::string_view name) {
  int low = 0, high = market.symbols();
  while (low < high) {
    const int middle = (low + high) / 2;
    if (market.symbol(middle) < name) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < market.symbols() && market.symbol(low) == name ? low : -1;
}

std::string time_of(const Market& market, int time) {
  return time_text(market.begin() + int64_t{time} * kStepSeconds);
}

// NaN where there is none: a coin may be too young for a mean of three days.
double number_or_none(const CsvTable& table, size_t row, size_t column) {
  if (table.text(row, column).empty()) return std::nan("");
  return table.number(row, column, CsvTable::NotFinite::kAllowed);
}

void carry_intervals(Market& market, int symbol) {
  constexpr uint8_t kUsual = 8;
  for (int venue = 0; venue < kVenues; ++venue) {
    uint8_t known = kUsual;
    for (int t = market.times() - 1; t >= 0; --t) {
      if (market.at(t, symbol).hours[venue] != 0) known = market.at(t, symbol).hours[venue];
    }
    for (int t = 0; t < market.times(); ++t) {
      uint8_t& hours = market.at(t, symbol).hours[venue];
      hours = known = hours != 0 ? hours : known;
    }
  }
}

}  // namespace

Opportunities::Columns::Columns(const CsvTable& table)
    : time(table.column("entry_time")),
      symbol(table.column("symbol")),
      venue{table.column("long_exchange"), table.column("short_exchange")},
      price{table.column("entry_long_price"), table.column("entry_short_price")},
      rate{table.column("long_funding_rate"), table.column("short_funding_rate")},
      hours{table.column("long_funding_interval_hours"),
            table.column("short_funding_interval_hours")},
      next{table.column("long_next_funding_time"), table.column("short_next_funding_time")},
      profit{table.column("fund_profit_8h"), table.column("fundProfit8h24hProj"),
             table.column("fundProfit8h3dProj")},
      apr{table.column("fund_apr"), table.column("fundApr24hProj"), table.column("fundApr3dProj")},
      spread30(table.column("spread30SampleAvg")),
      volatility30(table.column("spread_volatility_stddev")),
      spread24h(table.column("priceSpread24hAvg")),
      spread3d(table.column("priceSpread3dAvg")) {}

Opportunities::Opportunities(CsvTable table, const Market& market, std::span<const Times> priced)
    : table_(std::move(table)), columns_(table_) {
  places_.reserve(table_.rows());
  for (size_t row = 0; row < table_.rows(); ++row) {
    places_.push_back(place_of(market, row, priced));
  }
}

Opportunities::Place Opportunities::place_of(const Market& market, size_t row,
                                             std::span<const Times> priced) const {
  const std::string_view name = table_.text(row, columns_.symbol);
  const int symbol = find_symbol(market, name);
  if (symbol < 0) table_.refuse(row, columns_.symbol, "has no prices: " + in_quotes(name));
  const Times& times = priced[static_cast<size_t>(symbol)];
  const int64_t time = (grid_time_at(table_, row, columns_.time) - market.begin()) / kStepSeconds;
  if (time >= times.end) {
    table_.refuse(
        row, columns_.time,
        "is after the last price of " + in_quotes(name) + ", " + time_of(market, times.end - 1));
  }
  if (time >= 0 && time < times.begin) {
    table_.refuse(
        row, columns_.time,
        "is before the first price of " + in_quotes(name) + ", " + time_of(market, times.begin));
  }
  const int direction = venue_at(row, columns_.venue[kLong]);
  if (venue_at(row, columns_.venue[kShort]) == direction) {
    table_.refuse(row, columns_.venue[kShort], "is the venue of the long side");
  }
  return {static_cast<int>(std::max<int64_t>(time, -1)), symbol, direction};
}

int Opportunities::venue_at(size_t row, size_t column) const {
  const std::string_view name = table_.text(row, column);
  for (int i = 0; i < kVenues; ++i) {
    if (name == kVenueNames[static_cast<size_t>(i)]) return i;
  }
  table_.refuse(row, column, "expected Binance or Bybit, got " + in_quotes(name));
}

// Some tools write whole numbers as 8.0.
uint8_t Opportunities::hours_at(size_t row, size_t column) const {
  const double hours = table_.number(row, column);
  for (const uint8_t known : {1, 2, 4, 8}) {
    if (hours == known) return known;
  }
  table_.refuse(row, column, "expected 1, 2, 4 or 8");
}

std::vector<bool> Opportunities::listed(const Market& market) const {
  std::vector<bool> listed(static_cast<size_t>(market.symbols()));
  for (const Place& place : places_) {
    if (place.in_market()) listed[static_cast<size_t>(place.symbol)] = true;
  }
  return listed;
}

void Opportunities::add_intervals(Market& market) const {
  for (size_t row = 0; row < places_.size(); ++row) {
    const Place& place = places_[row];
    if (!place.in_market()) continue;
    for (int leg = 0; leg < kLegs; ++leg) {
      market.at(place.time, place.symbol).hours[venue_of(place.direction, leg)] =
          hours_at(row, columns_.hours[leg]);
    }
  }
  for (int symbol = 0; symbol < market.symbols(); ++symbol) carry_intervals(market, symbol);
}

void Opportunities::add_rates(Market& market) const {
  for (size_t row = 0; row < places_.size(); ++row) {
    const Place& place = places_[row];
    if (!place.in_market()) continue;
    for (int leg = 0; leg < kLegs; ++leg) {
      const double rate = table_.number(row, columns_.rate[leg]);
      double& known =
          market.at(place.time, place.symbol).quote.rate[venue_of(place.direction, leg)];
      if (std::isnan(known)) known = rate;
    }
  }
}

void Opportunities::add_rows(Market& market, FileNotes& notes) const {
  for (size_t row = 0; row < places_.size(); ++row) {
    const auto [time, symbol, direction] = places_[row];
    if (!places_[row].in_market()) continue;
    Cell& cell = market.at(time, symbol);
    if (cell.listed[direction] != 0) {
      table_.refuse(row, columns_.symbol, "is there twice at this time");
    }
    cell.listed[direction] = 1;
    add_signals_of(row, cell.signals, direction);
    check_row(market, row, notes);
    ++notes.rows;
  }
}

void Opportunities::add_signals_of(size_t row, Signals& s, int d) const {
  const auto number = [&](size_t column) {
    return static_cast<float>(number_or_none(table_, row, column));
  };
  // Rows are ranked by it, so it must be there.
  const double profit = table_.number(row, columns_.profit[0]);
  const float sign = d == 0 ? 1.0F : -1.0F;
  s.profit[0] = sign * static_cast<float>(profit);
  for (size_t i = 1; i < 3; ++i) s.profit[i] = sign * number(columns_.profit[i]);
  s.spread30[d] = number(columns_.spread30);
  s.volatility30[d] = number(columns_.volatility30);
  s.spread24h[d] = number(columns_.spread24h);
  s.spread3d[d] = number(columns_.spread3d);
}

void Opportunities::check_row(const Market& market, size_t row, FileNotes& notes) const {
  constexpr double kOddPrice = 0.01, kOddApr = 1e-3;
  const auto [time, symbol, direction] = places_[row];
  const LegQuotes quotes = market.quotes(time, symbol, direction);
  const int64_t now = market.begin() + int64_t{time} * kStepSeconds;
  bool odd_price = false, odd_apr = false;
  for (int leg = 0; leg < kLegs; ++leg) {
    const double price = price_at(table_, row, columns_.price[leg]);
    odd_price |= std::fabs(price / quotes.price[leg] - 1) > kOddPrice;
    const int64_t next = time_at(table_, row, columns_.next[leg]);
    const bool late = next <= now;
    notes.late += late;
    notes.unscheduled +=
        !late && next != market.begin() + payment_from(time * kStepSeconds + 1, quotes.hours[leg]);
  }
  for (size_t i = 0; i < 3; ++i) {
    const double apr = number_or_none(table_, row, columns_.apr[i]);
    const double expected = double{kAprOf8h} * number_or_none(table_, row, columns_.profit[i]);
    odd_apr |= std::fabs(apr - expected) > kOddApr * (1 + std::fabs(expected));
  }
  for (const size_t column : {columns_.profit[1], columns_.profit[2], columns_.spread30,
                              columns_.volatility30, columns_.spread24h, columns_.spread3d}) {
    notes.missing += !std::isfinite(number_or_none(table_, row, column));
  }
  notes.odd_prices += odd_price;
  notes.odd_aprs += odd_apr;
}

}  // namespace flotilla::funding
