// Tables as text: CSV as RFC 4180 has it, with a header row. A field in double quotes may hold
// commas, line ends and, doubled, quotes. Lines end with LF or CRLF; a UTF-8 byte order mark in
// front and empty lines at the end are skipped.
//
// A file that is ragged, cut in the middle of a quoted field or otherwise not a table is an
// Error(kData) of one line that names the file, the line (the first of a file is line 1; a row
// whose fields hold line ends stands where it begins) and the column. Nothing is guessed: spaces
// belong to their field, and a cell that is not a number is not turned into one.
//
// Determinism: numbers are read and written the same in every locale, and a number that was written
// is read as the same bits.
// Allocates: in proportion to the text.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

struct CsvLimits {
  static constexpr size_t kBytes = size_t{1} << 30;
  static constexpr size_t kColumns = 10'000;
};

class CsvTable {
 public:
  enum class NotFinite : uint8_t { kRefused, kAllowed };  // nan, inf and -inf as numbers

  const std::string& origin() const { return origin_; }
  const std::vector<std::string>& columns() const { return columns_; }
  size_t rows() const { return lines_.size(); }
  size_t line(size_t row) const { return lines_[row]; }  // in the file

  bool has(std::string_view column) const;
  // The index of a column. Throws Error(kData), with the name that may have been meant.
  size_t column(std::string_view name) const;

  // REQUIRES of all that follow: there is such a row and column.
  std::string_view text(size_t row, size_t column) const;
  // Throw Error(kData) for a cell that is something else, or beyond the type.
  double number(size_t row, size_t column, NotFinite = NotFinite::kRefused) const;
  int64_t integer(size_t row, size_t column) const;
  // A whole column.
  std::vector<double> numbers(std::string_view column, NotFinite = NotFinite::kRefused) const;

  // Throws Error(kData) "file: line 7, column 'price': what", for what a user of the table finds.
  [[noreturn]] void refuse(size_t row, size_t column, const std::string& what) const;

 private:
  friend CsvTable read_csv(std::string_view text, const std::string& origin);

  std::string origin_;
  std::vector<std::string> columns_;
  std::string cells_;           // all of them, one behind the other
  std::vector<uint32_t> ends_;  // of each cell in cells_
  std::vector<uint32_t> lines_;
};

CsvTable read_csv(std::string_view text, const std::string& origin);
CsvTable read_csv_file(const std::string& path);

// The text as one field, in quotes where it needs them.
std::string to_csv_field(std::string_view text);

// A table, written row by row; lines end with LF. What it writes read_csv() reads, cell for cell.
class CsvWriter {
 public:
  explicit CsvWriter(const std::vector<std::string>& columns);

  // The next cell of the row. Numbers are as short as they can be without being another number.
  CsvWriter& add(std::string_view text);
  CsvWriter& add(double value);
  CsvWriter& add(float value);
  CsvWriter& add(std::integral auto value) { return add(std::string_view(std::to_string(value))); }
  // Throws Error(kInternal) when the row does not have as many cells as the header.
  void end_row();

  const std::string& text() const { return text_; }

 private:
  size_t columns_, filled_ = 0;
  std::string text_;
};

}  // namespace flotilla
