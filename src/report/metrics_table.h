// The metrics of a run as a table: one row per line of metrics.jsonl, one column per name, NaN
// where a line does not have it. Tables of other programs are read into the same names.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

class MetricsTable {
 public:
  size_t rows() const { return rows_; }
  bool empty() const { return rows_ == 0; }
  // Names in the order in which they first appear.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& column(size_t index) const { return columns_[index]; }
  // Null where no row has the name.
  const std::vector<double>* find(std::string_view name) const;
  // Whether a row has a finite number of that name.
  bool has(std::string_view name) const;

  // Adds a row; then set() writes to it. The limits are those of a file that is still worth reading
  // whole: Error(kData) says which was passed.
  void add_row();
  void set(const std::string& name, double value);
  // Rows whose last names are missing are filled up. Call it once, after the last row.
  void complete();

 private:
  void require_room(size_t names) const;

  size_t rows_ = 0;
  std::vector<std::string> names_;
  std::vector<std::vector<double>> columns_;
  std::map<std::string, size_t, std::less<>> index_;
};

// The text of a metrics.jsonl: one flat JSON object of numbers per line, with "step" in each,
// larger than that of the line before. A last line without a line end that is no JSON was being
// written, or its writer was killed: it is left out. Anything else is an Error(kData) that names
// the line.
MetricsTable parse_metrics(std::string_view text, const std::string& origin);

// A CSV file with the columns `step` and `charts/episodic_return` or `charts/return_mean_100`, and
// `wall_s` and other metrics where it has them; or a progress.csv of Stable-Baselines3.
MetricsTable read_metrics_csv(const std::string& path);

// The table as CSV, empty where a value is missing.
std::string to_csv(const MetricsTable& table);

}  // namespace flotilla
