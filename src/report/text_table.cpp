#include "flotilla/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/terminal.h"

namespace flotilla {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kGap = 2;

std::vector<size_t> widths_of(const Rows& rows) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  return widths;
}

// The first column and those from `begin` to `end`.
std::string block_of(const Rows& rows, const std::vector<size_t>& widths, size_t begin,
                     size_t end) {
  std::string text;
  for (const auto& row : rows) {
    const auto blank = [&](size_t i) { return std::string(widths[i] - columns_of(row[i]), ' '); };
    std::string line = row[0] + blank(0);
    for (size_t i = begin; i < end; ++i) line += std::string(kGap, ' ') + blank(i) + row[i];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string lists_of(const Rows& rows, size_t width) {
  std::string text;
  for (size_t r = 1; r < rows.size(); ++r) {
    text += fold(rows[r][0] + "\n", width);
    for (size_t i = 1; i < rows[r].size(); ++i) {
      text += fold(fmt::format("  {}: {}\n", rows[0][i], rows[r][i]), width);
    }
  }
  return text;
}

}  // namespace

std::string text_table(const Rows& rows, size_t width) {
  const std::vector<size_t> widths = widths_of(rows);
  if (widths.empty()) return "";
  if (width == 0) return block_of(rows, widths, 1, widths.size());
  for (size_t i = 1; i < widths.size(); ++i) {
    if (widths[0] + kGap + widths[i] > width) return lists_of(rows, width);
  }
  std::string text;
  size_t begin = 1;
  do {
    size_t end = begin, used = widths[0];
    for (; end < widths.size() && used + kGap + widths[end] <= width; ++end) {
      used += kGap + widths[end];
    }
    if (begin > 1) text += "\n";
    text += block_of(rows, widths, begin, end);
    begin = end;
  } while (begin < widths.size());
  return text;
}

}  // namespace flotilla
