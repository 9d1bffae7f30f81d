#include "flotilla/core/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

bool begins_as_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

// Takes fields off a text, and knows the line.
class FieldReader {
 public:
  FieldReader(std::string_view text, const std::string& origin) : rest_(text), origin_(origin) {}

  size_t line() const { return line_; }
  bool at_end() const { return rest_.empty(); }
  // Between fields: no more in this row.
  bool at_row_end() const { return row_end_; }

  void begin_row() { row_end_ = false; }

  // Whether all that is left are line ends; if so it is taken.
  bool only_line_ends_left() {
    const bool only = rest_.find_first_not_of("\r\n") == rest_.npos;
    if (only) rest_ = {};
    return only;
  }

  // Whether the row that begins here has no character.
  bool at_line_end() const { return rest_.starts_with('\n') || rest_.starts_with("\r\n"); }

  // Appends the next field of the row, and takes the comma or the line end behind it.
  void take_field(std::string& out) {
    if (rest_.starts_with('"')) {
      take_quoted(out);
    } else {
      take_plain(out);
    }
    row_end_ = !take(',');
    if (!row_end_ || take("\r\n") || take('\n') || rest_.empty()) return;
    if (rest_.starts_with('\r')) refuse(line_, "a carriage return without a line feed");
    if (rest_.starts_with('"')) refuse(line_, "a quote in a field that has none around it");
    refuse(line_, "text behind the quote that ends a field");
  }

  [[noreturn]] void refuse(size_t line, const std::string& what) const {
    throw Error(ErrorCode::kData, fmt::format("{}: line {}: {}", origin_, line, what));
  }

 private:
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    if (text.back() == '\n') ++line_;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool take(char c) { return take(std::string_view(&c, 1)); }

  void take_plain(std::string& out) {
    const auto ends = [](char c) { return c == ',' || c == '\n' || c == '\r' || c == '"'; };
    const auto size = static_cast<size_t>(std::ranges::find_if(rest_, ends) - rest_.begin());
    out += rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  void take_quoted(std::string& out) {
    const size_t begin_line = line_;
    do {
      rest_.remove_prefix(1);
      const size_t end = rest_.find('"');
      if (end == rest_.npos) refuse(begin_line, "a quoted field that begins here does not end");
      const std::string_view piece = rest_.substr(0, end);
      line_ += static_cast<size_t>(std::ranges::count(piece, '\n'));
      out += piece;
      rest_.remove_prefix(end + 1);
      if (rest_.starts_with('"')) out += '"';  // two stand for one, and the field goes on
    } while (rest_.starts_with('"'));
  }

  std::string_view rest_;
  const std::string& origin_;
  size_t line_ = 1;
  bool row_end_ = false;
};

std::string_view without_mark(std::string_view text, const std::string& origin) {
  if (text.size() > CsvLimits::kBytes) {
    throw Error(ErrorCode::kData, fmt::format("{}: it has {} bytes, {} are read at most", origin,
                                              text.size(), CsvLimits::kBytes));
  }
  if (begins_as_utf16(text)) {
    throw Error(ErrorCode::kData, origin + ": it is UTF-16, expected UTF-8");
  }
  return text.starts_with(kUtf8Mark) ? text.substr(kUtf8Mark.size()) : text;
}

std::vector<std::string> take_header(FieldReader& reader) {
  if (reader.at_line_end()) reader.refuse(1, "it is empty, expected the names of the columns");
  std::vector<std::string> columns;
  std::set<std::string_view> names;
  for (reader.begin_row(); !reader.at_row_end();) {
    if (columns.size() == CsvLimits::kColumns) {
      reader.refuse(1, fmt::format("more than {} columns", CsvLimits::kColumns));
    }
    reader.take_field(columns.emplace_back());
  }
  for (const std::string& column : columns) {
    if (!names.insert(column).second) {
      reader.refuse(1, fmt::format("two columns are called {}", in_quotes(column)));
    }
  }
  return columns;
}

template <class T>
struct Parsed {
  T value = 0;
  std::errc error{};
};

// The whole of the text, or an error.
template <class T>
Parsed<T> parse(std::string_view text) {
  Parsed<T> parsed;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, parsed.value);
  parsed.error = error == std::errc() && end != last ? std::errc::invalid_argument : error;
  return parsed;
}

}  // namespace

bool CsvTable::has(std::string_view column) const {
  return std::ranges::find(columns_, column) != columns_.end();
}

size_t CsvTable::column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name);
  if (found != columns_.end()) return static_cast<size_t>(found - columns_.begin());
  std::string advice;
  if (const std::optional<std::string> meant = nearest(name, columns_)) {
    advice = "; did you mean " + in_quotes(*meant) + "?";  // its bytes are of the file
  } else {
    constexpr size_t kLongest = 200;
    for (const std::string& column : columns_) {
      advice += (advice.empty() ? "; it has " : ", ") + in_quotes(column);
      if (advice.size() < kLongest) continue;
      advice += ", ...";
      break;
    }
  }
  throw Error(ErrorCode::kData,
              fmt::format("{}: no column {}{}", origin_, in_quotes(name), advice));
}

std::string_view CsvTable::text(size_t row, size_t column) const {
  const size_t cell = row * columns_.size() + column;
  const size_t begin = cell == 0 ? 0 : ends_[cell - 1];
  return std::string_view(cells_).substr(begin, ends_[cell] - begin);
}

double CsvTable::number(size_t row, size_t column, NotFinite not_finite) const {
  const std::string_view cell = text(row, column);
  const Parsed<double> parsed = parse<double>(cell);
  if (parsed.error == std::errc::result_out_of_range) {
    refuse(row, column, in_quotes(cell) + " is out of the range of numbers");
  }
  if (parsed.error != std::errc()) {
    refuse(row, column, in_quotes(cell) + " is not a number");
  }
  if (not_finite == NotFinite::kRefused && !std::isfinite(parsed.value)) {
    refuse(row, column, in_quotes(cell) + " is not a finite number");
  }
  return parsed.value;
}

int64_t CsvTable::integer(size_t row, size_t column) const {
  const std::string_view cell = text(row, column);
  const Parsed<int64_t> parsed = parse<int64_t>(cell);
  if (parsed.error == std::errc::result_out_of_range) {
    refuse(row, column, in_quotes(cell) + " is out of the range of integers");
  }
  if (parsed.error != std::errc()) {
    refuse(row, column, in_quotes(cell) + " is not an integer");
  }
  return parsed.value;
}

std::vector<double> CsvTable::numbers(std::string_view name, NotFinite not_finite) const {
  const size_t index = column(name);
  std::vector<double> values(rows());
  for (size_t row = 0; row < rows(); ++row) values[row] = number(row, index, not_finite);
  return values;
}

void CsvTable::refuse(size_t row, size_t column, const std::string& what) const {
  throw Error(ErrorCode::kData, fmt::format("{}: line {}, column {}: {}", origin_, line(row),
                                            in_quotes(columns_[column]), what));
}

CsvTable read_csv(std::string_view text, const std::string& origin) {
  FieldReader reader(without_mark(text, origin), origin);
  if (reader.only_line_ends_left()) {
    throw Error(ErrorCode::kData, origin + ": it is empty, expected the names of the columns");
  }
  CsvTable table;
  table.origin_ = origin;
  table.columns_ = take_header(reader);
  table.cells_.reserve(text.size());
  const size_t columns = table.columns_.size();
  while (!reader.at_end() && !reader.only_line_ends_left()) {
    const size_t line = reader.line();
    if (reader.at_line_end()) reader.refuse(line, "it is empty");
    size_t fields = 0;
    for (reader.begin_row(); !reader.at_row_end(); ++fields) {
      reader.take_field(table.cells_);
      // A row that is too long is not kept, only counted.
      if (fields < columns) table.ends_.push_back(static_cast<uint32_t>(table.cells_.size()));
    }
    if (fields != columns) {
      reader.refuse(line, fmt::format("{} fields, the header has {}", fields, columns));
    }
    table.lines_.push_back(static_cast<uint32_t>(line));
  }
  return table;
}

CsvTable read_csv_file(const std::string& path) {
  return read_csv(read_whole_file(path, CsvLimits::kBytes), path);
}

std::string to_csv_field(std::string_view text) {
  // A mark of the encoding has its meaning only at the front of the file, where this may stand.
  const bool plain = !text.starts_with(kUtf8Mark) && !begins_as_utf16(text) &&
                     text.find_first_of(",\"\r\n") == text.npos;
  if (plain) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

CsvWriter::CsvWriter(const std::vector<std::string>& columns) : columns_(columns.size()) {
  for (const std::string& column : columns) add(std::string_view(column));
  end_row();
}

CsvWriter& CsvWriter::add(std::string_view text) {
  if (filled_++ > 0) text_ += ',';
  // A line without a character is no row.
  text_ += columns_ == 1 && text.empty() ? "\"\"" : to_csv_field(text);
  return *this;
}

CsvWriter& CsvWriter::add(double value) { return add(std::string_view(fmt::format("{}", value))); }

CsvWriter& CsvWriter::add(float value) { return add(std::string_view(fmt::format("{}", value))); }

void CsvWriter::end_row() {
  if (filled_ != columns_) {
    throw Error(ErrorCode::kInternal,
                fmt::format("csv: a row of {} cells in a table of {} columns", filled_, columns_));
  }
  filled_ = 0;
  text_ += '\n';
}

}  // namespace flotilla
