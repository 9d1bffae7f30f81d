#include "flotilla/domains/funding/market/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/market/opportunities.h"
#include "flotilla/domains/funding/market/price_files.h"
#include "flotilla/domains/funding/market/synthetic.h"
#include "flotilla/domains/funding/market/time_text.h"

namespace flotilla::funding {
namespace {

constexpr const char* kOpportunities = "/opportunities.csv";
constexpr const char* kPrices = "/prices";

std::string path_of(const std::string& plain) {
  return !path_exists(plain) && path_exists(plain + ".gz") ? plain + ".gz" : plain;
}

int64_t midnight_from(int64_t time) { return (time + kDay - 1) / kDay * kDay; }

// Without prices: of the symbols and times that there are prices of.
Market frame_of(const std::vector<PriceSeries>& all, const std::string& directory) {
  const auto first = std::ranges::min_element(all, {}, &PriceSeries::first);
  const auto last = std::ranges::max_element(all, {}, &PriceSeries::last);
  const int64_t begin = midnight_from(first->first), end = last->last();
  if (end < begin) {
    throw Error(ErrorCode::kData, directory + kPrices + ": has no midnight; expected whole days");
  }
  const int64_t times = (end - begin) / kStepSeconds + 1;
  if (times > int64_t{kMostDays} * kStepsPerDay) {
    throw Error(ErrorCode::kData,
                fmt::format("{}{}: {} begins at {} and {} ends at {}, more than {} days", directory,
                            kPrices, first->symbol, time_text(begin), last->symbol, time_text(end),
                            kMostDays));
  }
  std::vector<std::string> symbols;
  for (const PriceSeries& series : all) symbols.push_back(series.symbol);
  return Market(static_cast<int>(times), std::move(symbols), begin);
}

// At which times of the market, in part before it begins, a symbol has prices.
Times times_of(const PriceSeries& series, const Market& market) {
  const auto begin = static_cast<int>((series.first - market.begin()) / kStepSeconds);
  return {begin, begin + static_cast<int>(series.quotes.size())};
}

void add_prices(Market& market, int symbol, const PriceSeries& series, Times priced) {
  for (int t = 0; t < market.times(); ++t) {
    const int nearest = std::clamp(t, priced.begin, priced.end - 1);
    Quote& quote = market.at(t, symbol).quote;
    quote = series.quotes[static_cast<size_t>(nearest - priced.begin)];
    if (nearest != t) std::ranges::fill(quote.rate, 0);
  }
}

void carry_rates(std::span<Cell> cells) {
  for (int venue = 0; venue < kVenues; ++venue) {
    double known = 0;
    for (Cell& cell : cells) {
      double& rate = cell.quote.rate[venue];
      rate = known = std::isnan(rate) ? known : rate;
    }
  }
}

// The part of the market in which a symbol has prices.
std::span<Cell> priced_cells(std::vector<Cell>& column, Times priced) {
  const int begin = std::max(priced.begin, 0), end = std::max(priced.end, begin);
  return std::span(column).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

void count_payments(const Market& market, int symbol, Times priced, bool listed, FileNotes& notes) {
  for (int t = std::max(priced.begin, 0); t < priced.end; ++t) {
    const Cell& cell = market.at(t, symbol);
    for (int venue = 0; venue < kVenues; ++venue) {
      const bool is_paid = !std::isnan(cell.quote.rate[venue]);
      if (is_payment(t * kStepSeconds, cell.hours[venue])) {
        ++(is_paid ? notes.payments : notes.unpaid);
      } else if (listed) {
        notes.between += is_paid;
      }
    }
  }
}

std::string prices_csv(const Market& market, int symbol) {
  CsvWriter table(
      {"timestamp", "binance_price", "bybit_price", "binance_funding_rate", "bybit_funding_rate"});
  for (int t = 0; t < market.times(); ++t) {
    const Cell& cell = market.at(t, symbol);
    const int32_t now = t * kStepSeconds;
    table.add(time_text(market.begin() + now));
    for (const double price : cell.quote.price) table.add(price);
    for (int venue = 0; venue < kVenues; ++venue) {
      table.add(is_payment(now, cell.hours[venue]) ? cell.quote.rate[venue] : 0.0);
    }
    table.end_row();
  }
  return table.text();
}

void add_row(CsvWriter& table, const Market& market, int t, int symbol, int direction) {
  const Cell& cell = market.at(t, symbol);
  const int32_t now = t * kStepSeconds;
  const LegQuotes quotes = market.quotes(t, symbol, direction);
  const int venues[kLegs] = {venue_of(direction, kLong), venue_of(direction, kShort)};
  const Features row = features_of(cell.signals, direction);
  table.add(time_text(market.begin() + now)).add(market.symbol(symbol));
  for (const int venue : venues) table.add(kVenueNames[static_cast<size_t>(venue)]);
  for (const double price : quotes.price) table.add(price);
  for (const double rate : quotes.rate) table.add(rate);
  for (const int venue : venues) table.add(int{cell.hours[venue]});
  for (const int venue : venues) {
    table.add(time_text(market.begin() + payment_from(now + 1, cell.hours[venue])));
  }
  for (size_t i = 0; i < 3; ++i) table.add(row[i]).add(row[3 + i]);
  for (const size_t i : {6, 9, 7, 8}) table.add(row[i]);
  table.end_row();
}

std::string opportunities_csv(const Market& market) {
  CsvWriter table({"entry_time",
                   "symbol",
                   "long_exchange",
                   "short_exchange",
                   "entry_long_price",
                   "entry_short_price",
                   "long_funding_rate",
                   "short_funding_rate",
                   "long_funding_interval_hours",
                   "short_funding_interval_hours",
                   "long_next_funding_time",
                   "short_next_funding_time",
                   "fund_profit_8h",
                   "fund_apr",
                   "fundProfit8h24hProj",
                   "fundApr24hProj",
                   "fundProfit8h3dProj",
                   "fundApr3dProj",
                   "spread30SampleAvg",
                   "spread_volatility_stddev",
                   "priceSpread24hAvg",
                   "priceSpread3dAvg"});
  for (int t = 0; t < market.times(); ++t) {
    for (int symbol = 0; symbol < market.symbols(); ++symbol) {
      for (int direction = 0; direction < kDirections; ++direction) {
        if (market.at(t, symbol).listed[direction] == 0) continue;
        add_row(table, market, t, symbol, direction);
      }
    }
  }
  return table.text();
}

void write_table(const std::string& path, const std::string& text, Packing packing) {
  if (packing == Packing::kPlain) {
    write_file_atomically(path, text);
  } else {
    write_file_atomically(path + ".gz", gzipped(text));
  }
}

void require_readable(const std::string& table) {
  if (table.size() <= CsvLimits::kBytes) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("opportunities.csv would have {} MB, and {} are read at most: expected "
                          "fewer days or symbols",
                          table.size() >> 20, CsvLimits::kBytes >> 20));
}

}  // namespace

Market read_market(const std::string& directory, FileNotes* notes) {
  FileNotes unread;
  FileNotes& met = notes != nullptr ? *notes : unread;
  const std::vector<PriceSeries> all = read_price_files(directory + kPrices);
  Market market = frame_of(all, directory);
  std::vector<Times> priced;
  for (const PriceSeries& series : all) {
    const Times times = times_of(series, market);
    if (times.begin > 0 || times.end < market.times()) met.partial.push_back(series.symbol);
    met.filled_prices += series.filled;
    add_prices(market, static_cast<int>(priced.size()), series, times);
    priced.push_back(times);
  }
  const Opportunities rows(read_csv_or_gzip(path_of(directory + kOpportunities)), market, priced);
  rows.add_intervals(market);
  const std::vector<bool> listed = rows.listed(market);
  for (int i = 0; i < market.symbols(); ++i) {
    const auto at = static_cast<size_t>(i);
    count_payments(market, i, priced[at], listed[at], met);
  }
  rows.add_rates(market);
  for (int i = 0; i < market.symbols(); ++i) {
    std::vector<Cell> column = market.column(i);
    const std::span<Cell> cells = priced_cells(column, priced[static_cast<size_t>(i)]);
    carry_rates(cells);
    add_signals(cells);
    for (Cell& cell : cells) std::ranges::fill(cell.listed, 0);
    market.set_column(i, column);
  }
  rows.add_rows(market, met);
  return market;
}

void write_market(const Market& market, const std::string& directory, Packing packing) {
  for (const char* name : {kOpportunities, kPrices, "/opportunities.csv.gz"}) {
    if (path_exists(directory + name)) {
      throw Error(ErrorCode::kUsage, in_quotes(directory + name) + " is there already");
    }
  }
  const std::string rows = opportunities_csv(market);
  require_readable(rows);
  std::error_code error;
  std::filesystem::create_directories(directory + kPrices, error);
  if (error) {
    throw Error(ErrorCode::kUsage,
                "cannot make " + in_quotes(directory + kPrices) + ": " + error.message());
  }
  for (int symbol = 0; symbol < market.symbols(); ++symbol) {
    const std::string path = directory + kPrices + "/" + market.symbol(symbol) + ".csv";
    write_table(path, prices_csv(market, symbol), packing);
  }
  write_table(directory + kOpportunities, rows, packing);
}

}  // namespace flotilla::funding
