#include "flotilla/core/csv.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <bit>
#include <clocale>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

Rows rows_of(const CsvTable& table) {
  Rows rows;
  for (size_t r = 0; r < table.rows(); ++r) {
    Row& row = rows.emplace_back();
    for (size_t c = 0; c < table.columns().size(); ++c) row.emplace_back(table.text(r, c));
  }
  return rows;
}

// The header is the first row.
Rows read(std::string_view text) {
  const CsvTable table = read_csv(text, "t.csv");
  Rows rows = rows_of(table);
  rows.insert(rows.begin(), table.columns());
  return rows;
}

std::string read_error(std::string_view text) {
  return error_text(ErrorCode::kData, [&] { read_csv(text, "t.csv"); });
}

std::string write(const Rows& rows) {
  CsvWriter writer(rows[0]);
  for (size_t r = 1; r < rows.size(); ++r) {
    for (const std::string& cell : rows[r]) writer.add(cell);
    writer.end_row();
  }
  return writer.text();
}

TEST(Csv, RowsAndColumns) {
  const CsvTable table = read_csv("time,price\n1,2.5\n3,-4e2\n", "t.csv");
  EXPECT_EQ(table.origin(), "t.csv");
  EXPECT_EQ(table.columns(), (Row{"time", "price"}));
  EXPECT_EQ(table.rows(), 2u);
  EXPECT_TRUE(table.has("price"));
  EXPECT_FALSE(table.has("Price"));
  EXPECT_EQ(table.column("price"), 1u);
  EXPECT_EQ(table.text(1, 0), "3");
  EXPECT_EQ(table.integer(1, 0), 3);
  EXPECT_EQ(table.numbers("price"), (std::vector<double>{2.5, -400}));
  EXPECT_EQ(table.line(0), 2u);
  EXPECT_EQ(table.line(1), 3u);
}

TEST(Csv, LineEndsMarksAndTheLastLine) {
  const Rows expected = {{"a", "b"}, {"1", "2"}, {"3", "4"}};
  for (const char* text :
       {"a,b\n1,2\n3,4\n", "a,b\n1,2\n3,4", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r\n1,2\n3,4",
        "\xef\xbb\xbf\x61,b\n1,2\n3,4\n", "a,b\n1,2\n3,4\n\n\r\n\n", "a,b\n\"1\",2\n3,\"4\""}) {
    EXPECT_EQ(read(text), expected) << text;
  }
  EXPECT_EQ(read("a,b"), (Rows{{"a", "b"}}));
  EXPECT_EQ(read("a,b\n"), (Rows{{"a", "b"}}));
  // A mark in another place is text.
  EXPECT_EQ(read("a\n\xef\xbb\xbf\x31\n"), (Rows{{"a"}, {"\xef\xbb\xbf\x31"}}));
}

TEST(Csv, QuotedFields) {
  const CsvTable table = read_csv(
      "\"a,1\",\"b \"\"x\"\"\"\n\"one\r\ntwo\n\nfour\",\"\"\n\"\"\"\",\" , \"\nx,y\n", "t");
  EXPECT_EQ(table.columns(), (Row{"a,1", "b \"x\""}));
  EXPECT_EQ(rows_of(table), (Rows{{"one\r\ntwo\n\nfour", ""}, {"\"", " , "}, {"x", "y"}}));
  EXPECT_EQ(table.line(0), 2u);  // where it begins
  EXPECT_EQ(table.line(1), 6u);
  EXPECT_EQ(table.line(2), 7u);
}

TEST(Csv, EmptyCells) {
  EXPECT_EQ(read("a,b,\n,,\n"), (Rows{{"a", "b", ""}, {"", "", ""}}));
  EXPECT_EQ(read("a\n\"\"\n\"\"\n"), (Rows{{"a"}, {""}, {""}}));
  EXPECT_EQ(read("a,b\n,"), (Rows{{"a", "b"}, {"", ""}}));
}

TEST(Csv, NothingIsTrimmed) {
  EXPECT_EQ(read(" a,b \n 1,2\t\n"), (Rows{{" a", "b "}, {" 1", "2\t"}}));
  EXPECT_EQ(read(std::string("a\n\0x\n", 5)), (Rows{{"a"}, {std::string("\0x", 2)}}));
}

TEST(Csv, WhatIsNoTableIsNamedWithItsLine) {
  EXPECT_EQ(read_error(""), "t.csv: it is empty, expected the names of the columns");
  EXPECT_EQ(read_error("\xef\xbb\xbf\r\n\n"),
            "t.csv: it is empty, expected the names of the columns");
  EXPECT_EQ(read_error("\na,b\n1,2\n"),
            "t.csv: line 1: it is empty, expected the names of the columns");
  EXPECT_EQ(read_error("a,b\n1,2\n3\n"), "t.csv: line 3: 1 fields, the header has 2");
  EXPECT_EQ(read_error("a,b\n\"x\n\",2\n3,4,5\n"), "t.csv: line 4: 3 fields, the header has 2");
  EXPECT_EQ(read_error("a,b\n1,2,\n"), "t.csv: line 2: 3 fields, the header has 2");
  EXPECT_EQ(read_error("a,b\n1,2\n\n3,4\n"), "t.csv: line 3: it is empty");
  EXPECT_EQ(read_error("a\n1\n\n2\n"), "t.csv: line 3: it is empty");
  EXPECT_EQ(read_error("a,b,a\n"), "t.csv: line 1: two columns are called 'a'");
  EXPECT_EQ(read_error("a\n1\n\"two\nthree"),
            "t.csv: line 3: a quoted field that begins here does not end");
  EXPECT_EQ(read_error("a\n\"one\"\""),
            "t.csv: line 2: a quoted field that begins here does not end");
  EXPECT_EQ(read_error("a\n\""), "t.csv: line 2: a quoted field that begins here does not end");
  EXPECT_EQ(read_error("a\n1\"2\"\n"), "t.csv: line 2: a quote in a field that has none around it");
  EXPECT_EQ(read_error("a\n\"1\"2\n"), "t.csv: line 2: text behind the quote that ends a field");
  EXPECT_EQ(read_error("a\n\"1\" \n"), "t.csv: line 2: text behind the quote that ends a field");
  EXPECT_EQ(read_error("a,b\r1,2\r"), "t.csv: line 1: a carriage return without a line feed");
  EXPECT_EQ(read_error("\xff\xfe\x61"), "t.csv: it is UTF-16, expected UTF-8");
  EXPECT_EQ(read_error("\xfe\xff"), "t.csv: it is UTF-16, expected UTF-8");
  EXPECT_EQ(read_error(std::string(CsvLimits::kColumns, ',')),
            "t.csv: line 1: more than 10000 columns");
  EXPECT_EQ(read_error(std::string(100'000, ',')), "t.csv: line 1: more than 10000 columns");
}

TEST(Csv, MissingColumns) {
  const CsvTable table = read_csv("time,funding_rate,open\n", "prices.csv");
  const auto missing = [&](const char* name) {
    return error_text(ErrorCode::kData, [&] { table.column(name); });
  };
  EXPECT_EQ(missing("funding_rte"),
            "prices.csv: no column 'funding_rte'; did you mean 'funding_rate'?");
  EXPECT_EQ(missing("volume"),
            "prices.csv: no column 'volume'; it has 'time', 'funding_rate', 'open'");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { table.numbers("OPEM"); }),
            "prices.csv: no column 'OPEM'; did you mean 'open'?");
  // One line, however the file calls them.
  EXPECT_EQ(error_text(ErrorCode::kData, [] { read_csv("\"pri\nce\"\n", "p").column("pri ce"); }),
            "p: no column 'pri ce'; did you mean 'pri\\nce'?");
  std::string wide = "first";
  for (int i = 0; i < 5000; ++i) wide += ",column_number_" + std::to_string(i);
  const std::string text =
      error_text(ErrorCode::kData, [&] { read_csv(wide, "w").column("price"); });
  EXPECT_TRUE(text.starts_with("w: no column 'price'; it has 'first', 'column_number_0', "))
      << text;
  EXPECT_TRUE(text.ends_with(", ...")) << text;
  EXPECT_LT(text.size(), 300u);
}

double number(const std::string& cell,
              CsvTable::NotFinite not_finite = CsvTable::NotFinite::kRefused) {
  return read_csv("x,y\n" + to_csv_field(cell) + ",\n", "t").number(0, 0, not_finite);
}

TEST(Csv, Numbers) {
  EXPECT_EQ(number("1"), 1);
  EXPECT_EQ(number("-0.25"), -0.25);
  EXPECT_EQ(number("1e-3"), 1e-3);
  EXPECT_EQ(number("2.5E+10"), 2.5e10);
  EXPECT_EQ(number(".5"), 0.5);
  EXPECT_EQ(number("5."), 5);
  EXPECT_EQ(number("007"), 7);
  EXPECT_EQ(number("0.1"), 0.1);
  EXPECT_EQ(number("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(number("4.9406564584124654e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_TRUE(std::signbit(number("-0")));
}

TEST(Csv, WhatIsNoNumberIsNamedWithItsCell) {
  const CsvTable table =
      read_csv("time,price\n1,2\n\"a\nb\",x\n3,\n4,1e999\n5,inf\n6,-1.5\n", "t.csv");
  const auto error = [&](size_t row, size_t column) {
    return error_text(ErrorCode::kData, [&] { table.number(row, column); });
  };
  EXPECT_EQ(error(1, 0), "t.csv: line 3, column 'time': 'a\\nb' is not a number");
  EXPECT_EQ(error(1, 1), "t.csv: line 3, column 'price': 'x' is not a number");
  EXPECT_EQ(error(2, 1), "t.csv: line 5, column 'price': '' is not a number");
  EXPECT_EQ(error(3, 1), "t.csv: line 6, column 'price': '1e999' is out of the range of numbers");
  EXPECT_EQ(error(4, 1), "t.csv: line 7, column 'price': 'inf' is not a finite number");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { table.numbers("price"); }), error(1, 1));
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { table.refuse(0, 1, "must be above 3"); }),
            "t.csv: line 2, column 'price': must be above 3");
  for (const char* cell :
       {" 1", "1 ", "1,5", "+1",  "0x10", "1e",       "1e+",    "--1", "1_000", "1.2.3", "ten", "-",
        ".",  "1f", "nan", "NaN", "-inf", "infinity", "nan(0)", "1\n", "\t1",   "1d0",   "١"}) {
    EXPECT_NE(error_text(ErrorCode::kData, [&] { number(cell); }), "no error") << cell;
  }
}

TEST(Csv, NotFiniteWhereItIsAskedFor) {
  constexpr auto kAllowed = CsvTable::NotFinite::kAllowed;
  EXPECT_TRUE(std::isnan(number("nan", kAllowed)));
  EXPECT_TRUE(std::isnan(number("NaN", kAllowed)));
  EXPECT_EQ(number("-inf", kAllowed), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read_csv("a\n1\ninf\n", "t").numbers("a", kAllowed)[1],
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(error_text(ErrorCode::kData, [] { number("", kAllowed); }),
            "t: line 2, column 'x': '' is not a number");
}

TEST(Csv, Integers) {
  const auto integer = [](const std::string& cell) {
    return read_csv("x,y\n" + to_csv_field(cell) + ",\n", "t").integer(0, 0);
  };
  EXPECT_EQ(integer("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(integer("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { integer("9223372036854775808"); }),
            "t: line 2, column 'x': '9223372036854775808' is out of the range of integers");
  for (const char* cell : {"1.0", "1e3", "", " 1", "+1", "0x1", "one"}) {
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { integer(cell); }),
              "t: line 2, column 'x': '" + std::string(cell) + "' is not an integer");
  }
}

TEST(Csv, TheLocaleDoesNotMatter) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  const bool comma = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  const double value = number("1.5");
  CsvWriter writer({"a"});
  writer.add(1.5).end_row();
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_EQ(value, 1.5);
  EXPECT_EQ(writer.text(), "a\n1.5\n");
  if (!comma) GTEST_SKIP() << "no locale with a decimal comma here";
}

TEST(Csv, WhatIsWritten) {
  CsvWriter writer({"name", "n", "x", "y"});
  writer.add("plain").add(-3).add(0.1).add(0.1F).end_row();
  writer.add("a,b").add(uint64_t{18446744073709551615U}).add(1e300).add(-0.0).end_row();
  writer.add("say \"hi\"").add("").add("two\nlines").add("").end_row();
  EXPECT_EQ(writer.text(),
            "name,n,x,y\n"
            "plain,-3,0.1,0.1\n"
            "\"a,b\",18446744073709551615,1e+300,-0\n"
            "\"say \"\"hi\"\"\",,\"two\nlines\",\n");
  EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { writer.add("1").end_row(); }),
            "csv: a row of 1 cells in a table of 4 columns");
}

TEST(Csv, ANumberThatIsWrittenIsReadAsTheSameBits) {
  Rng rng(3, stream_of(Purpose::kTest, 0));
  CsvWriter writer({"x"});
  std::vector<double> values = {0, -0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, INFINITY};
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bits = uint64_t{rng.below(UINT32_MAX)} << 32 | rng.below(UINT32_MAX);
    const auto value = std::bit_cast<double>(bits);
    if (!std::isnan(value)) values.push_back(value);
  }
  for (const double value : values) writer.add(value).end_row();
  const std::vector<double> again =
      read_csv(writer.text(), "t").numbers("x", CsvTable::NotFinite::kAllowed);
  ASSERT_EQ(again.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(again[i]), std::bit_cast<uint64_t>(values[i]));
  }
}

TEST(Csv, WhatIsWrittenIsReadCellForCell) {
  constexpr std::string_view kLetters("ab,\"\r\n 0\0\xef\xbb\xbf\xff\xfe", 14);
  Rng rng(4, stream_of(Purpose::kTest, 0));
  for (int round = 0; round < 3000; ++round) {
    Rows rows(1 + rng.below(4));
    const size_t columns = 1 + rng.below(3);
    for (size_t r = 0; r < rows.size(); ++r) {
      for (size_t c = 0; c < columns; ++c) {
        std::string cell;
        for (uint32_t n = rng.below(6); n > 0; --n) cell += kLetters[rng.below(kLetters.size())];
        if (r == 0) cell += std::to_string(c);  // names differ
        rows[r].push_back(cell);
      }
    }
    ASSERT_EQ(read(write(rows)), rows) << write(rows);
  }
  for (const Rows& rows : {Rows{{""}, {""}, {"x"}, {""}}, Rows{{"\xef\xbb\xbf"}, {"1"}},
                           Rows{{"\xff\xfe"}, {"1"}}, Rows{{"", "b"}, {"", ""}}}) {
    EXPECT_EQ(read(write(rows)), rows);
  }
}

TEST(Csv, Files) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("flotilla-csv-" + std::to_string(getpid()));
  std::ofstream(path) << "a\n1\nx\n";
  const CsvTable table = read_csv_file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { table.numbers("a"); }),
            path.string() + ": line 3, column 'a': 'x' is not a number");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { read_csv_file(path); }),
            "cannot read " + path.string() + ": No such file or directory");
}

}  // namespace
}  // namespace flotilla::test
