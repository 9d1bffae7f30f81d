#include "flotilla/domains/funding/market/price_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "flotilla/core/csv.h"
#include "flotilla/core/error.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/market/synthetic.h"
#include "flotilla/domains/funding/market/time_text.h"

namespace flotilla::funding {
namespace {

constexpr std::string_view kCsv = ".csv", kGz = ".csv.gz";
constexpr int kMostFilled = 2;  // times without a price that keep the last one

std::map<std::string, std::string> paths_by_symbol(const std::string& directory) {
  std::map<std::string, std::string> paths;
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = each.path().filename().string();
    const std::string_view ending = name.ends_with(kGz) ? kGz : kCsv;
    if (!name.ends_with(ending)) continue;
    const std::string symbol = name.substr(0, name.size() - ending.size());
    if (!paths.emplace(symbol, each.path().string()).second) {
      throw Error(ErrorCode::kData,
                  each.path().string() + ": is there twice, plain and as .gz; remove one");
    }
  }
  if (error) throw Error(ErrorCode::kData, directory + ": " + error.message());
  if (paths.empty()) throw Error(ErrorCode::kData, directory + ": has no .csv files");
  if (paths.size() > kMostSymbols) {
    throw Error(ErrorCode::kData, fmt::format("{}: {} symbols, {} are read at most", directory,
                                              paths.size(), kMostSymbols));
  }
  return paths;
}

// A 0 between two payments is no rate.
double paid_rate(const CsvTable& table, size_t row, size_t column) {
  const double rate = table.number(row, column);
  return rate != 0 ? rate : kNoRate;
}

void fill_gap(PriceSeries& series, int64_t missing) {
  Quote before = series.quotes.back();
  for (double& rate : before.rate) rate = kNoRate;
  series.quotes.insert(series.quotes.end(), static_cast<size_t>(missing), before);
  series.filled += missing;
}

PriceSeries series_of(const std::string& symbol, const CsvTable& table) {
  if (table.rows() == 0) throw Error(ErrorCode::kData, table.origin() + ": has no rows");
  const size_t when = table.column("timestamp");
  const size_t price[kVenues] = {table.column("binance_price"), table.column("bybit_price")};
  const size_t paid[kVenues] = {table.column("binance_funding_rate"),
                                table.column("bybit_funding_rate")};
  PriceSeries series{.symbol = symbol, .first = grid_time_at(table, 0, when)};
  for (size_t row = 0; row < table.rows(); ++row) {
    const int64_t time = grid_time_at(table, row, when);
    if (row > 0 && time <= series.last()) table.refuse(row, when, "is not after the row before");
    const int64_t missing = row > 0 ? (time - series.last()) / kStepSeconds - 1 : 0;
    if (missing > kMostFilled) {
      table.refuse(row, when,
                   fmt::format("{} times are missing before it, at most {} are filled", missing,
                               kMostFilled));
    }
    if (missing > 0) fill_gap(series, missing);
    Quote quote{};
    for (int venue = 0; venue < kVenues; ++venue) {
      quote.price[venue] = price_at(table, row, price[venue]);
      quote.rate[venue] = paid_rate(table, row, paid[venue]);
    }
    series.quotes.push_back(quote);
  }
  return series;
}

}  // namespace

int64_t time_at(const CsvTable& table, size_t row, size_t column) {
  if (const auto time = parse_time(table.text(row, column))) return *time;
  table.refuse(row, column,
               fmt::format("expected a time such as 2025-09-01T00:05:00Z, got {}",
                           in_quotes(table.text(row, column))));
}

int64_t grid_time_at(const CsvTable& table, size_t row, size_t column) {
  const int64_t time = time_at(table, row, column);
  if (time % kStepSeconds != 0) table.refuse(row, column, "expected a multiple of 5 minutes");
  return time;
}

double price_at(const CsvTable& table, size_t row, size_t column) {
  const double price = table.number(row, column);
  if (price <= 0) table.refuse(row, column, "expected a price above 0");
  return price;
}

std::vector<PriceSeries> read_price_files(const std::string& directory) {
  std::vector<PriceSeries> all;
  for (const auto& [symbol, path] : paths_by_symbol(directory)) {
    all.push_back(series_of(symbol, read_csv_or_gzip(path)));
  }
  return all;
}

}  // namespace flotilla::funding
