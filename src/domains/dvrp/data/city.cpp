#include "flotilla/domains/dvrp/data/city.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/sha256.h"

namespace flotilla::dvrp {
namespace {

constexpr int64_t kLongestWay = 24 * 60 * 60;  // seconds

std::string fingerprint_of(const std::vector<std::string>& cells,
                           const std::vector<int64_t>& seconds) {
  constexpr size_t kDigits = 16;
  Sha256 hash;
  for (const std::string& cell : cells) hash.update(cell + "\n");
  for (const int64_t time : seconds) hash.update(std::to_string(time) + "\n");
  return hash.hex().substr(0, kDigits);
}

}  // namespace

City::City(std::vector<std::string> cells, const std::vector<int64_t>& seconds,
           const std::string& origin)
    : cells_(std::move(cells)),
      seconds_(seconds),
      fingerprint_(fingerprint_of(cells_, seconds_)),
      positions_(cells_.size()) {
  const size_t n = cells_.size();
  std::vector<double> sums(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const int64_t time = seconds[i * n + j];
      if (time < 0 || (i == j && time != 0)) {
        throw Error(
            ErrorCode::kData,
            fmt::format("{}: row '{}', column '{}': {} seconds, where {} is expected", origin,
                        cells_[i], cells_[j], time,
                        i == j ? "0 from a cell to itself" : "a time that is not negative"));
      }
      minutes_.push_back(static_cast<float>(time) / 60);
      sums[i] += static_cast<double>(time);
    }
  }
  depot_ = static_cast<int>(std::ranges::min_element(sums) - sums.begin());
}

int City::find(const std::string& name) const {
  const auto at = std::ranges::find(cells_, name);
  return at == cells_.end() ? -1 : static_cast<int>(at - cells_.begin());
}

City::Triangles City::triangles() const {
  Triangles found;
  for (int i = 0; i < size(); ++i) {
    for (int j = 0; j < size(); ++j) {
      for (int k = 0; k < size(); ++k) {
        if (i == j || j == k || i == k) continue;
        const int64_t longer = seconds(i, k) - seconds(i, j) - seconds(j, k);
        found.violations += longer > 0 ? 1 : 0;
        found.worst_seconds = std::max(found.worst_seconds, longer);
      }
    }
  }
  return found;
}

City read_city(const std::string& path) {
  const CsvTable table = read_csv_or_gzip(path);
  const std::vector<std::string> cells(table.columns().begin() + 1, table.columns().end());
  if (cells.empty() || table.rows() != cells.size()) {
    throw Error(ErrorCode::kData, fmt::format("{}: {} rows for {} cells: expected a square table",
                                              path, table.rows(), cells.size()));
  }
  std::vector<int64_t> seconds;
  for (size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, 0) != cells[row]) {
      table.refuse(row, 0,
                   fmt::format("expected '{}': rows are in the order of the columns", cells[row]));
    }
    for (size_t column = 1; column <= cells.size(); ++column) {
      const int64_t time = table.integer(row, column);
      if (time < 0) table.refuse(row, column, "a negative travel time");
      if (time > kLongestWay) {
        table.refuse(row, column, "a travel time of more than a day; they are in seconds");
      }
      seconds.push_back(time);
    }
  }
  return City(cells, seconds, path);
}

std::string city_csv(const City& city) {
  std::vector<std::string> columns = {"h3"};
  for (int i = 0; i < city.size(); ++i) columns.push_back(city.name(i));
  CsvWriter csv(columns);
  for (int i = 0; i < city.size(); ++i) {
    csv.add(city.name(i));
    for (int j = 0; j < city.size(); ++j) csv.add(city.seconds(i, j));
    csv.end_row();
  }
  return csv.text();
}

}  // namespace flotilla::dvrp
