#include "flotilla/domains/funding/market/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/market/synthetic.h"
#include "flotilla/domains/funding/market/time_text.h"

namespace flotilla::funding {
namespace {

constexpr const char* kOpportunities = "/opportunities.csv";
constexpr const char* kPrices = "/prices";
constexpr std::string_view kCsv = ".csv", kGz = ".csv.gz";
constexpr int kMostFilled = 2;  // times without a price that keep the last one

constexpr std::array<const char*, 3> kProfitColumns = {"fund_profit_8h", "fundProfit8h24hProj",
                                                       "fundProfit8h3dProj"};
constexpr std::array<const char*, 3> kAprColumns = {"fund_apr", "fundApr24hProj", "fundApr3dProj"};

std::string path_of(const std::string& plain) {
  return !path_exists(plain) && path_exists(plain + ".gz") ? plain + ".gz" : plain;
}

int64_t time_at(const CsvTable& table, size_t row, size_t column) {
  if (const auto time = parse_time(table.text(row, column))) return *time;
  table.refuse(row, column,
               fmt::format("expected a time such as 2025-09-01T00:05:00Z, got {}",
                           in_quotes(table.text(row, column))));
}

double price_at(const CsvTable& table, size_t row, size_t column) {
  const double price = table.number(row, column);
  if (price <= 0) table.refuse(row, column, "expected a price above 0");
  return price;
}

int64_t midnight_from(int64_t time) { return (time + kDay - 1) / kDay * kDay; }

// The file of one symbol's prices.
struct PriceFile {
  std::string symbol;
  CsvTable table;

  int64_t first() const { return time_at(table, 0, table.column("timestamp")); }
  int64_t last() const { return time_at(table, table.rows() - 1, table.column("timestamp")); }
};

std::map<std::string, std::string> price_paths(const std::string& directory) {
  std::map<std::string, std::string> paths;  // by symbol
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator(directory + kPrices, error)) {
    const std::string name = each.path().filename().string();
    const std::string_view ending = name.ends_with(kGz) ? kGz : kCsv;
    if (!name.ends_with(ending)) continue;
    const std::string symbol = name.substr(0, name.size() - ending.size());
    if (!paths.emplace(symbol, each.path().string()).second) {
      throw Error(ErrorCode::kData,
                  each.path().string() + ": is there twice, plain and as .gz; remove one");
    }
  }
  if (error) throw Error(ErrorCode::kData, directory + kPrices + ": " + error.message());
  if (paths.empty()) throw Error(ErrorCode::kData, directory + kPrices + ": has no .csv files");
  if (paths.size() > kMostSymbols) {
    throw Error(ErrorCode::kData, fmt::format("{}{}: {} symbols, {} are read at most", directory,
                                              kPrices, paths.size(), kMostSymbols));
  }
  return paths;
}

PriceFile read_prices(const std::string& symbol, const std::string& path) {
  PriceFile file{.symbol = symbol, .table = read_csv_or_gzip(path)};
  if (file.table.rows() == 0) throw Error(ErrorCode::kData, path + ": has no rows");
  return file;
}

class Reader {
 public:
  Reader(const std::string& directory, FileNotes& notes) : directory_(directory), notes_(notes) {}

  Market read() {
    const auto paths = price_paths(directory_);
    Market market = frame(paths);
    int symbol = 0;
    for (const auto& [name, path] : paths) {
      const PriceFile file = read_prices(name, path);
      require_same_span(file, market);
      add_prices(market, symbol++, file.table);
    }
    const CsvTable rows = read_csv_or_gzip(path_of(directory_ + kOpportunities));
    add_intervals(market, rows);
    for (int i = 0; i < market.symbols(); ++i) count_payments(market, i);
    add_rates(market, rows);
    for (int i = 0; i < market.symbols(); ++i) {
      carry_rates(market, i);
      std::vector<Cell> column = market.column(i);
      add_signals(column);
      for (Cell& cell : column) std::ranges::fill(cell.listed, 0);
      market.set_column(i, column);
    }
    add_rows(market, rows);
    return market;
  }

 private:
  // An empty market of the symbols and times that there are prices of.
  static Market frame(const std::map<std::string, std::string>& paths) {
    std::vector<std::string> symbols;
    for (const auto& [symbol, path] : paths) symbols.push_back(symbol);
    const PriceFile file = read_prices(paths.begin()->first, paths.begin()->second);
    const int64_t begin = midnight_from(file.first()), end = file.last();
    const int64_t times = (end - begin) / kStepSeconds + 1;
    if (end < begin) {
      throw Error(ErrorCode::kData, file.table.origin() + ": has no midnight; expected whole days");
    }
    if (times > int64_t{kMostDays} * kStepsPerDay) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: more than {} days", file.table.origin(), kMostDays));
    }
    return Market(static_cast<int>(times), std::move(symbols), begin);
  }

  static void require_same_span(const PriceFile& file, const Market& market) {
    const int64_t end = market.begin() + int64_t{market.times() - 1} * kStepSeconds;
    if (midnight_from(file.first()) == market.begin() && file.last() == end) return;
    throw Error(ErrorCode::kData,
                fmt::format("{}: from {} to {}, the first file goes from {} to {}",
                            file.table.origin(), time_text(file.first()), time_text(file.last()),
                            time_text(market.begin()), time_text(end)));
  }

  // The grid time of a row, negative before the market begins. Throws for what is off the grid.
  static int64_t grid_time(const Market& market, const CsvTable& table, size_t row, size_t column) {
    const int64_t time = time_at(table, row, column) - market.begin();
    if (time % kStepSeconds != 0) table.refuse(row, column, "expected a multiple of 5 minutes");
    return time / kStepSeconds;
  }

  void add_prices(Market& market, int symbol, const CsvTable& table) {
    const size_t when = table.column("timestamp");
    const size_t price[kVenues] = {table.column("binance_price"), table.column("bybit_price")};
    const size_t paid[kVenues] = {table.column("binance_funding_rate"),
                                  table.column("bybit_funding_rate")};
    std::optional<int64_t> last;
    for (size_t row = 0; row < table.rows(); ++row) {
      const int64_t time = grid_time(market, table, row, when);
      if (last && time <= *last) table.refuse(row, when, "is not after the row before");
      if (last && time - *last > kMostFilled + 1) {
        table.refuse(row, when,
                     fmt::format("{} times are missing before it, at most {} are filled",
                                 time - *last - 1, kMostFilled));
      }
      Cell cell{};
      for (int venue = 0; venue < kVenues; ++venue) {
        cell.quote.price[venue] = price_at(table, row, price[venue]);
        cell.quote.rate[venue] = table.number(row, paid[venue]);
      }
      if (time >= 0) fill(market, symbol, last ? std::max<int64_t>(*last + 1, 0) : 0, time, cell);
      last = time;
    }
  }

  // Times without a price of their own have the one before.
  void fill(Market& market, int symbol, int64_t from, int64_t time, const Cell& cell) {
    for (int64_t t = from; t < time; ++t) {
      const Cell& before = t > 0 ? market.at(static_cast<int>(t - 1), symbol) : cell;
      Cell& empty = market.at(static_cast<int>(t), symbol);
      empty = before;
      for (double& rate : empty.quote.rate) rate = 0;
      ++notes_.filled_prices;
    }
    market.at(static_cast<int>(time), symbol) = cell;
  }

  // They hold until others are known; before the first, that one.
  static void add_intervals(Market& market, const CsvTable& table) {
    const Columns columns(table);
    for (size_t row = 0; row < table.rows(); ++row) {
      const auto place = columns.place(market, table, row);
      if (!place) continue;
      for (int leg = 0; leg < kLegs; ++leg) {
        const int64_t hours = table.integer(row, columns.hours[leg]);
        if (hours != 1 && hours != 2 && hours != 4 && hours != 8) {
          table.refuse(row, columns.hours[leg], "expected 1, 2, 4 or 8");
        }
        market.at(place->time, place->symbol).hours[venue_of(place->direction, leg)] =
            static_cast<uint8_t>(hours);
      }
    }
    for (int symbol = 0; symbol < market.symbols(); ++symbol) carry_intervals(market, symbol);
  }

  static void carry_intervals(Market& market, int symbol) {
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

  // What the scanner knew. What was paid counts more.
  static void add_rates(Market& market, const CsvTable& table) {
    const Columns columns(table);
    for (size_t row = 0; row < table.rows(); ++row) {
      const auto place = columns.place(market, table, row);
      if (!place) continue;
      for (int leg = 0; leg < kLegs; ++leg) {
        price_at(table, row, columns.price[leg]);
        const double rate = table.number(row, columns.rate[leg]);
        double& known =
            market.at(place->time, place->symbol).quote.rate[venue_of(place->direction, leg)];
        if (known == 0) known = rate;
      }
    }
  }

  static void carry_rates(Market& market, int symbol) {
    for (int venue = 0; venue < kVenues; ++venue) {
      double known = 0;
      for (int t = 0; t < market.times(); ++t) {
        double& rate = market.at(t, symbol).quote.rate[venue];
        rate = known = rate != 0 ? rate : known;
      }
    }
  }

  void count_payments(const Market& market, int symbol) {
    for (int t = 0; t < market.times(); ++t) {
      const Cell& cell = market.at(t, symbol);
      for (int venue = 0; venue < kVenues; ++venue) {
        if (!is_payment(t * kStepSeconds, cell.hours[venue])) continue;
        ++(cell.quote.rate[venue] != 0 ? notes_.payments : notes_.unpaid);
      }
    }
  }

  // Where a row belongs.
  struct Place {
    int time, symbol, direction;
  };

  struct Columns {
    explicit Columns(const CsvTable& table)
        : time(table.column("entry_time")),
          symbol(table.column("symbol")),
          venue{table.column("long_exchange"), table.column("short_exchange")},
          price{table.column("entry_long_price"), table.column("entry_short_price")},
          rate{table.column("long_funding_rate"), table.column("short_funding_rate")},
          hours{table.column("long_funding_interval_hours"),
                table.column("short_funding_interval_hours")},
          next{table.column("long_next_funding_time"), table.column("short_next_funding_time")} {}

    // Nothing before the market begins.
    std::optional<Place> place(const Market& market, const CsvTable& table, size_t row) const {
      const int64_t t = grid_time(market, table, row, time);
      if (t >= market.times()) table.refuse(row, time, "is after the last price");
      const int index = find_symbol(market, table.text(row, symbol));
      if (index < 0) {
        table.refuse(row, symbol, "has no prices: " + in_quotes(table.text(row, symbol)));
      }
      const int direction = venue_at(table, row, venue[kLong]);
      if (venue_at(table, row, venue[kShort]) == direction) {
        table.refuse(row, venue[kShort], "is the venue of the long side");
      }
      if (t < 0) return std::nullopt;
      return Place{static_cast<int>(t), index, direction};
    }

    static int venue_at(const CsvTable& table, size_t row, size_t column) {
      const std::string_view name = table.text(row, column);
      for (int i = 0; i < kVenues; ++i) {
        if (name == kVenueNames[static_cast<size_t>(i)]) return i;
      }
      table.refuse(row, column, "expected Binance or Bybit, got " + in_quotes(name));
    }

    // Symbols are in order. -1: there is none.
    static int find_symbol(const Market& market, std::string_view name) {
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

    size_t time, symbol;
    size_t venue[kLegs], price[kLegs], rate[kLegs], hours[kLegs], next[kLegs];
  };

  void add_rows(Market& market, const CsvTable& table) {
    const Columns columns(table);
    const auto column = [&table](const char* name) { return table.column(name); };
    size_t profit[3];
    for (size_t i = 0; i < 3; ++i) profit[i] = column(kProfitColumns[i]);
    for (const char* name : kAprColumns) column(name);
    const size_t spread30 = column("spread30SampleAvg"), spread24h = column("priceSpread24hAvg"),
                 spread3d = column("priceSpread3dAvg"),
                 volatility = column("spread_volatility_stddev");
    int last = 0;
    for (size_t row = 0; row < table.rows(); ++row) {
      const auto number = [&](size_t at) { return static_cast<float>(table.number(row, at)); };
      const auto place = columns.place(market, table, row);
      if (!place) continue;
      if (place->time < last) table.refuse(row, columns.time, "is before the row before");
      last = place->time;
      Cell& cell = market.at(place->time, place->symbol);
      const int d = place->direction;
      if (cell.listed[d] != 0) table.refuse(row, columns.symbol, "is there twice at this time");
      cell.listed[d] = 1;
      Signals& s = cell.signals;
      for (size_t i = 0; i < 3; ++i) s.profit[i] = (d == 0 ? 1.0F : -1.0F) * number(profit[i]);
      s.spread30[d] = number(spread30);
      s.volatility30[d] = number(volatility);
      s.spread24h[d] = number(spread24h);
      s.spread3d[d] = number(spread3d);
      for (const size_t next : columns.next) {
        notes_.late += time_at(table, row, next) <= time_at(table, row, columns.time);
      }
      ++notes_.rows;
    }
  }

  const std::string directory_;
  FileNotes& notes_;
};

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

}  // namespace

Market read_market(const std::string& directory, FileNotes* notes) {
  FileNotes unread;
  return Reader(directory, notes != nullptr ? *notes : unread).read();
}

void write_market(const Market& market, const std::string& directory, Packing packing) {
  for (const char* name : {kOpportunities, kPrices, "/opportunities.csv.gz"}) {
    if (path_exists(directory + name)) {
      throw Error(ErrorCode::kUsage, in_quotes(directory + name) + " is there already");
    }
  }
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
  write_table(directory + kOpportunities, opportunities_csv(market), packing);
}

}  // namespace flotilla::funding
