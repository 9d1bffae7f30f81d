#include "flotilla/domains/dvrp/standard/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla::dvrp::standard {
namespace {

constexpr double kLargest = 1e9;  // of any number

}  // namespace

Lines::Lines(const std::string& text, const std::string& path) : path_(path) {
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    add(rest.substr(0, end), number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void Lines::refuse(const Line& line, const std::string& why) const {
  throw Error(ErrorCode::kData, fmt::format("{}, line {}: {}", path_, line.number, why));
}

int Lines::whole(const Line& line, size_t field, const char* what, int least, int most) const {
  const double number = line.fields[field];
  if (!(number >= least && number <= most) || number != std::floor(number)) {
    refuse(line, fmt::format("{}: expected a whole number from {} to {}, got {}", what, least, most,
                             number));
  }
  return static_cast<int>(number);
}

double Lines::number(const Line& line, size_t field, const char* what, double least) const {
  const double number = line.fields[field];
  if (!(number >= least)) {
    refuse(line, fmt::format("{}: expected at least {}, got {}", what, least, number));
  }
  return number;
}

void Lines::add(std::string_view text, int number) {
  constexpr std::string_view kSpace = " \t\r\v\f";
  Line line{.number = number, .fields = {}};
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(kSpace));
    double value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size() ||
        !(std::abs(value) <= kLargest)) {
      refuse(line,
             fmt::format("column {}: {} is no number", line.fields.size() + 1, in_quotes(word)));
    }
    line.fields.push_back(value);
    text.remove_prefix(word.size());
  }
  if (line.fields.empty()) return;
  if (lines_.size() > kMostStops) refuse(line, "more than 1000 requests");
  lines_.push_back(std::move(line));
}

std::string path_beside(const std::string& instance_path, const char* ending) {
  const std::filesystem::path path(instance_path);
  const std::string name = path.filename().string();
  return (path.parent_path() / (name.substr(0, name.find('.', 1)) + ending)).string();
}

}  // namespace flotilla::dvrp::standard
