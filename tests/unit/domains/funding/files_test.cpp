// Markets as files: read back as they were written, and what is wrong with one is named by file,
// line and column.
#include "flotilla/domains/funding/market/files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "flotilla/domains/funding/market/synthetic.h"
#include "flotilla/domains/funding/market/time_text.h"
#include "market_support.h"
#include "support/error_text.h"

namespace flotilla::funding {
namespace {

namespace fs = std::filesystem;
using test::error_text;

constexpr SyntheticOptions kSmall = {.days = 2, .symbols = 3, .seed = 4};

// A market in a directory of its own.
class Folder {
 public:
  explicit Folder(Packing packing = Packing::kPlain) {
    write_market(make_market(kSmall), path(), packing);
  }
  const std::string& path() const { return scratch_.path(); }
  std::string rows() const { return path() + "/opportunities.csv"; }
  std::string prices() const { return path() + "/prices/COIN001USDT.csv"; }

  // Changes a cell; line 2 is the first below the header.
  static void change(const std::string& file, size_t line, size_t column, const std::string& to) {
    std::ifstream in(file);
    std::stringstream out;
    std::string text;
    for (size_t number = 1; std::getline(in, text); ++number) {
      if (number == line) text = with_cell(text, column, to);
      out << text << '\n';
    }
    in.close();
    std::ofstream(file) << out.str();
  }
  static std::string cell(const std::string& file, size_t line, size_t column) {
    std::ifstream in(file);
    std::string text, found;
    for (size_t number = 0; number < line; ++number) EXPECT_TRUE(std::getline(in, text)) << number;
    std::stringstream cells(text);
    for (size_t i = 0; i <= column; ++i) std::getline(cells, found, ',');
    return found;
  }
  int time_of_row(size_t line, const Market& market) const {
    return static_cast<int>((parse_time(cell(rows(), line, 0)).value_or(0) - market.begin()) /
                            kStepSeconds);
  }
  static void insert_line(const std::string& file, size_t line, const std::string& added) {
    std::ifstream in(file);
    std::stringstream out;
    std::string text;
    for (size_t number = 1; std::getline(in, text); ++number) {
      if (number == line) out << added << '\n';
      out << text << '\n';
    }
    in.close();
    std::ofstream(file) << out.str();
  }
  // Of a symbol, or of all, only the rows from one time to another.
  void keep_rows(const std::string& symbol, const std::string& from, const std::string& to) const {
    std::ifstream in(rows());
    std::stringstream out;
    std::string text;
    while (std::getline(in, text)) {
      const std::string time = text.substr(0, from.size());
      const bool concerned = text.find(',' + symbol) != std::string::npos && text[0] == '2';
      if (!concerned || (time >= from && time <= to)) out << text << '\n';
    }
    in.close();
    std::ofstream(rows()) << out.str();
  }
  static void remove_lines(const std::string& file, size_t first, size_t count) {
    std::ifstream in(file);
    std::stringstream out;
    std::string text;
    for (size_t number = 1; std::getline(in, text); ++number) {
      if (number < first || number >= first + count) out << text << '\n';
    }
    in.close();
    std::ofstream(file) << out.str();
  }

 private:
  static std::string with_cell(const std::string& line, size_t column, const std::string& to) {
    std::stringstream in(line);
    std::string cell, all;
    for (size_t i = 0; std::getline(in, cell, ','); ++i) {
      all += (i > 0 ? "," : "") + (i == column ? to : cell);
    }
    return all;
  }
  Scratch scratch_;
};

std::string fault(const Folder& folder) {
  const std::string text = error_text(ErrorCode::kData, [&] { read_market(folder.path()); });
  return text.starts_with(folder.path()) ? text.substr(folder.path().size()) : text;
}

TEST(MarketFiles, AreReadAsTheyWereWritten) {
  const Market made = make_market(kSmall);
  for (const Packing packing : {Packing::kPlain, Packing::kGzipped}) {
    const Folder folder(packing);
    FileNotes notes;
    const Market read = read_market(folder.path(), &notes);
    ASSERT_EQ(read.times(), made.times());
    ASSERT_EQ(read.symbols(), made.symbols());
    EXPECT_EQ(read.begin(), made.begin());
    EXPECT_EQ(notes.filled_prices + notes.unpaid + notes.late, 0);
    int64_t rows = 0;
    for (int t = 0; t < made.times(); ++t) {
      for (int symbol = 0; symbol < made.symbols(); ++symbol) {
        const Cell &a = made.at(t, symbol), &b = read.at(t, symbol);
        for (int i = 0; i < 2; ++i) {
          ASSERT_EQ(a.quote.price[i], b.quote.price[i]);
          ASSERT_EQ(a.listed[i], b.listed[i]);
          if (is_payment(t * kStepSeconds, a.hours[i]) || a.listed[0] + a.listed[1] > 0) {
            ASSERT_EQ(a.quote.rate[i], b.quote.rate[i]);
          }
          if (a.listed[i] == 0) continue;
          ASSERT_EQ(features_of(a.signals, i), features_of(b.signals, i));
          ++rows;
        }
      }
    }
    EXPECT_EQ(notes.rows, rows);
    EXPECT_GT(rows, 100);
  }
}

TEST(MarketFiles, CanBeTraded) {
  const Folder folder;
  const Funding env =
      small_env({"data=" + folder.path(), "split.embargo_days=0", "episode_days=0.2"});
  Play play(env);
  Outcome outcome;
  while (!outcome.truncated) outcome = play.step(play.state.now % 900 == 0 ? kFirstEntry : 0);
  EXPECT_GT(play.state.book.trades, 0);
}

TEST(MarketFiles, NameWhatIsWrongWithPrices) {
  const auto changed = [](size_t line, size_t column, const char* to) {
    const Folder folder;
    Folder::change(folder.prices(), line, column, to);
    return fault(folder);
  };
  EXPECT_EQ(changed(5, 1, "0"),
            "/prices/COIN001USDT.csv: line 5, column 'binance_price': expected a price above 0");
  EXPECT_EQ(changed(6, 2, "nan"),
            "/prices/COIN001USDT.csv: line 6, column 'bybit_price': 'nan' is not a finite number");
  EXPECT_EQ(changed(7, 2, "-3"),
            "/prices/COIN001USDT.csv: line 7, column 'bybit_price': expected a price above 0");
  EXPECT_EQ(changed(7, 0, "2025-09-01T00:00:00Z"),
            "/prices/COIN001USDT.csv: line 7, column 'timestamp': is not after the row before");
  EXPECT_EQ(
      changed(7, 0, "2025-09-01T00:26:00Z"),
      "/prices/COIN001USDT.csv: line 7, column 'timestamp': expected a multiple of 5 minutes");
  EXPECT_EQ(changed(7, 0, "yesterday"),
            "/prices/COIN001USDT.csv: line 7, column 'timestamp': expected a time such as "
            "2025-09-01T00:05:00Z, got 'yesterday'");
  EXPECT_EQ(changed(1, 1, "binanceprice"),
            "/prices/COIN001USDT.csv: no column 'binance_price'; did you mean 'binanceprice'?");
  EXPECT_EQ(changed(1, 1, "bybit_price"),
            "/prices/COIN001USDT.csv: line 1: two columns are called 'bybit_price'");
}

TEST(MarketFiles, FillSmallGapsAndRefuseLargeOnes) {
  const Folder folder;
  Folder::remove_lines(folder.prices(), 10, 2);
  FileNotes notes;
  const Market market = read_market(folder.path(), &notes);
  EXPECT_EQ(notes.filled_prices, 2);
  EXPECT_EQ(market.at(8, 1).quote.price[0], market.at(7, 1).quote.price[0]);
  EXPECT_EQ(market.at(9, 1).quote.price[0], market.at(7, 1).quote.price[0]);
  Folder::remove_lines(folder.prices(), 20, 3);
  EXPECT_EQ(fault(folder),
            "/prices/COIN001USDT.csv: line 20, column 'timestamp': 3 times are missing before it, "
            "at most 2 are filled");
}

TEST(MarketFiles, NameWhatIsWrongWithRows) {
  const auto changed = [](size_t line, size_t column, const char* to) {
    const Folder folder;
    Folder::change(folder.rows(), line, column, to);
    return fault(folder);
  };
  EXPECT_EQ(changed(3, 1, "DOGE"),
            "/opportunities.csv: line 3, column 'symbol': has no prices: 'DOGE'");
  EXPECT_EQ(changed(3, 2, "Kraken"),
            "/opportunities.csv: line 3, column 'long_exchange': expected Binance or Bybit, got "
            "'Kraken'");
  EXPECT_EQ(changed(3, 8, "3"),
            "/opportunities.csv: line 3, column 'long_funding_interval_hours': expected 1, 2, 4 or "
            "8");
  EXPECT_EQ(changed(3, 4, "-1"),
            "/opportunities.csv: line 3, column 'entry_long_price': expected a price above 0");
  EXPECT_EQ(changed(3, 12, "much"),
            "/opportunities.csv: line 3, column 'fund_profit_8h': 'much' is not a number");
  EXPECT_EQ(changed(3, 8, "7.5"),
            "/opportunities.csv: line 3, column 'long_funding_interval_hours': expected 1, 2, 4 or "
            "8");
  EXPECT_EQ(changed(150, 0, "2025-09-03T00:00:00Z").substr(0, 75),
            "/opportunities.csv: line 150, column 'entry_time': is after the last price ");
  EXPECT_EQ(changed(1, 13, "symbol"),
            "/opportunities.csv: line 1: two columns are called 'symbol'");
  EXPECT_EQ(changed(1, 13, "fundApr"),
            "/opportunities.csv: no column 'fund_apr'; did you mean 'fundApr'?");
  const Folder folder;
  Folder::change(folder.rows(), 3, 3, "Binance");
  Folder::change(folder.rows(), 3, 2, "Binance");
  EXPECT_EQ(fault(folder),
            "/opportunities.csv: line 3, column 'short_exchange': is the venue of the long side");
}

// The cells of two markets of the same times and symbols.
void expect_same(const Market& a, const Market& b) {
  ASSERT_EQ(a.times(), b.times());
  for (int t = 0; t < a.times(); ++t) {
    for (int symbol = 0; symbol < a.symbols(); ++symbol) {
      const Cell &x = a.at(t, symbol), &y = b.at(t, symbol);
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(x.quote.price[i], y.quote.price[i]) << t;
        ASSERT_EQ(x.quote.rate[i], y.quote.rate[i]) << t;
        ASSERT_EQ(x.hours[i], y.hours[i]) << t;
        ASSERT_EQ(x.listed[i], y.listed[i]) << t;
        ASSERT_EQ(features_of(x.signals, i), features_of(y.signals, i)) << t;
      }
    }
  }
}

TEST(MarketFiles, MayHaveRowsInAnyOrderAndHoursWithAPoint) {
  const Folder folder;
  const Market expected = read_market(folder.path());
  std::ifstream in(folder.rows());
  std::string header, line;
  std::getline(in, header);
  std::vector<std::string> lines;
  while (std::getline(in, line)) lines.push_back(line);
  in.close();
  std::ofstream out(folder.rows());
  out << header << '\n';
  for (size_t i = lines.size(); i-- > 0;) out << lines[i] << '\n';
  out.close();
  const std::string hours = folder.cell(folder.rows(), 5, 8);
  Folder::change(folder.rows(), 5, 8, hours + ".0");
  expect_same(read_market(folder.path()), expected);
}

TEST(MarketFiles, ARateOf0OfTheScannerIsARateAndThatOfAPriceFileIsNone) {
  const Folder folder;
  const Market before = read_market(folder.path());
  size_t line = 2;
  while (folder.time_of_row(line, before) % kStepsPerHour == 0) ++line;  // none is paid then
  const int t = folder.time_of_row(line, before);
  int symbol = 0;
  while (before.symbol(symbol) != folder.cell(folder.rows(), line, 1)) ++symbol;
  const int venue = folder.cell(folder.rows(), line, 2) == "Binance" ? 0 : 1;
  ASSERT_NE(before.at(t, symbol).quote.rate[venue], 0);
  Folder::change(folder.rows(), line, 6, "0");
  const Market after = read_market(folder.path());
  EXPECT_EQ(after.at(t, symbol).quote.rate[venue], 0);
  EXPECT_EQ(after.at(t - 1, symbol).quote.rate[venue], before.at(t - 1, symbol).quote.rate[venue]);
}

TEST(MarketFiles, HaveCoinsThatComeAndGo) {
  const Folder folder;
  const Market whole = read_market(folder.path());
  std::vector<int> rows;  // times of its rows
  for (int t = 0; t < whole.times(); ++t) {
    if (whole.at(t, 1).listed[0] + whole.at(t, 1).listed[1] > 0) rows.push_back(t);
  }
  ASSERT_GT(rows.size(), 20u);
  const int first = rows[rows.size() / 4], last = rows[3 * rows.size() / 4];  // with prices
  const auto time_at = [&](int t) { return time_text(whole.begin() + int64_t{t} * kStepSeconds); };
  Folder::remove_lines(folder.prices(), 2 + last + 1, 10'000);
  Folder::remove_lines(folder.prices(), 2, first);
  EXPECT_NE(fault(folder).find("column 'entry_time': is before the first price of 'COIN001USDT', " +
                               time_at(first)),
            std::string::npos)
      << fault(folder);
  folder.keep_rows("COIN001USDT", time_at(first), time_at(last));
  FileNotes notes;
  const Market market = read_market(folder.path(), &notes);
  EXPECT_EQ(notes.partial, std::vector<std::string>{"COIN001USDT"});
  ASSERT_EQ(market.times(), whole.times());
  int listed = 0;
  for (int t = 0; t < market.times(); ++t) {
    const Cell &cell = market.at(t, 1), &expected = whole.at(std::clamp(t, first, last), 1);
    for (int venue = 0; venue < kVenues; ++venue) {
      ASSERT_EQ(cell.quote.price[venue], expected.quote.price[venue]) << t;
      ASSERT_TRUE(cell.quote.rate[venue] == 0 || (t >= first && t <= last)) << t;
      listed += cell.listed[venue];
      ASSERT_TRUE(cell.listed[venue] == 0 || (t >= first && t <= last)) << t;
      ASSERT_EQ(market.at(t, 0).listed[venue], whole.at(t, 0).listed[venue]) << t;
    }
  }
  EXPECT_GT(listed, 10);
}

TEST(MarketFiles, MayLackNumbersOfYoungCoins) {
  const Folder folder;
  size_t line = 2;
  while (folder.cell(folder.rows(), line, 1) != "COIN001USDT") ++line;
  for (const auto& [column, text] :
       {std::pair{16, ""}, std::pair{17, ""}, std::pair{18, "nan"}, std::pair{21, "inf"}}) {
    Folder::change(folder.rows(), line, static_cast<size_t>(column), text);
  }
  FileNotes notes;
  const Market market = read_market(folder.path(), &notes);
  EXPECT_EQ(notes.missing, 3);
  EXPECT_EQ(notes.odd_aprs, 0) << "what is not there is not odd";
  const int t = folder.time_of_row(line, market);
  const int direction = folder.cell(folder.rows(), line, 2) == "Binance" ? 0 : 1;
  const Features row = features_of(market.at(t, 1).signals, direction);
  EXPECT_EQ(row[2], 0);
  EXPECT_EQ(row[5], 0);
  EXPECT_EQ(row[6], 0);
  EXPECT_EQ(row[8], 100);
  const Scaler scaler = fit_scaler(market, {0, market.times()});
  for (const double mean : scaler.mean) EXPECT_TRUE(std::isfinite(mean));
  Folder::change(folder.rows(), line, 12, "");
  EXPECT_NE(fault(folder).find("column 'fund_profit_8h': '' is not a number"), std::string::npos)
      << "rows are ranked by it";
}

TEST(MarketFiles, CountWhatLooksOdd) {
  const auto notes_of = [](size_t column, const char* to) {
    const Folder folder;
    Folder::change(folder.rows(), 3, column, to);
    FileNotes notes;
    read_market(folder.path(), &notes);
    return notes;
  };
  EXPECT_EQ(notes_of(13, "99999").odd_aprs, 1);
  EXPECT_EQ(notes_of(17, "99999").odd_aprs, 1);
  EXPECT_EQ(notes_of(4, "12345678").odd_prices, 1);
  EXPECT_EQ(notes_of(10, "2020-01-01T00:00:00Z").late, 1);
  EXPECT_EQ(notes_of(11, "2025-11-01T00:00:00Z").unscheduled, 1);
  const Folder paid;
  Folder::change(paid.prices(), 3, 3, "0.001");  // at five past midnight
  FileNotes with_payment;
  read_market(paid.path(), &with_payment);
  EXPECT_EQ(with_payment.between, 1);
  FileNotes none;
  read_market(Folder().path(), &none);
  EXPECT_EQ(
      none.odd_aprs + none.odd_prices + none.late + none.unscheduled + none.missing + none.between,
      0);
}

// Prices that begin before midnight, and a gap across it.
TEST(MarketFiles, FillAGapAcrossTheFirstMidnight) {
  const Folder folder;
  for (const char* symbol : {"COIN000USDT", "COIN001USDT", "COIN002USDT"}) {
    const std::string file = folder.path() + "/prices/" + symbol + ".csv";
    Folder::insert_line(file, 2, "2025-08-31T23:55:00Z,7,8,0,0");
    Folder::remove_lines(file, 3, 2);
  }
  folder.keep_rows("", "2025-09-01T00:10:00Z", "2025-09-02T23:55:00Z");
  const Market market = read_market(folder.path());
  EXPECT_EQ(time_text(market.begin()), "2025-09-01T00:00:00Z");
  for (int t = 0; t < 2; ++t) EXPECT_EQ(market.at(t, 1).quote.price[0], 7) << t;
  EXPECT_NE(market.at(2, 1).quote.price[0], 7);
}

TEST(MarketFiles, AreMissedByName) {
  const Folder folder;
  fs::remove(folder.rows());
  EXPECT_NE(fault(folder).find("opportunities.csv"), std::string::npos);
  fs::remove_all(folder.path() + "/prices");
  EXPECT_EQ(fault(folder), "/prices: No such file or directory");
  // Before any training begins.
  EXPECT_NE(
      error_text(ErrorCode::kData, [&] { small_env({"data=" + folder.path()}); }).find("prices"),
      std::string::npos);
}

TEST(MarketFiles, AreNotOverwritten) {
  const Folder folder;
  EXPECT_NE(error_text(ErrorCode::kUsage,
                       [&] { write_market(make_market(kSmall), folder.path(), Packing::kPlain); })
                .find("is there already"),
            std::string::npos);
}

TEST(TimeText, IsReadAsItWasWritten) {
  EXPECT_EQ(time_text(1'756'684'800), "2025-09-01T00:00:00Z");
  for (const int64_t seconds : {int64_t{0}, int64_t{951'782'399}, int64_t{1'761'999'900}}) {
    EXPECT_EQ(parse_time(time_text(seconds)), seconds);
  }
  EXPECT_EQ(parse_time("2025-09-01 00:05:00+00:00"), 1'756'685'100);
  EXPECT_EQ(parse_time("2025-09-01T00:05:00.250Z"), 1'756'685'100);
  EXPECT_EQ(parse_time("2025-09-01T00:05:00"), 1'756'685'100);
  for (const char* bad : {"", "2025-02-30T00:00:00Z", "2025-09-01", "2025-09-01T24:00:00Z",
                          "2025-09-01T00:05:00+02:00", "2025-09-01T00:05:00.Z", "x"}) {
    EXPECT_FALSE(parse_time(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace flotilla::funding
