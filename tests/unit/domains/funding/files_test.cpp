// Markets as files: read back as they were written, and what is wrong with one is named by file,
// line and column.
#include "flotilla/domains/funding/market/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "flotilla/core/file.h"
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
    std::string name = temporary_path("funding");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    write_market(make_market(kSmall), path(), packing);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
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
  fs::path path_;
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
  EXPECT_EQ(changed(150, 0, "2025-09-01T00:00:00Z"),
            "/opportunities.csv: line 150, column 'entry_time': is before the row before");
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
