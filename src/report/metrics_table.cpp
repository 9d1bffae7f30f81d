#include "flotilla/report/metrics_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "flotilla/core/csv.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json_events.h"
#include "flotilla/core/text.h"
#include "flotilla/report/curve.h"

namespace flotilla {
namespace {

using Metric = std::pair<std::string, double>;
constexpr size_t kMostNames = 2000;
constexpr size_t kMostValues = size_t{1} << 27;  // a GiB of doubles

// Writes the members of one flat object into the last row of a table.
class LineReader : public JsonEvents {
 public:
  explicit LineReader(MetricsTable& table) : table_(table) {}
  const std::string& problem() const { return problem_; }

  bool start_object() override { return std::exchange(inside_, true) ? not_a_number() : true; }
  bool end_object() override { return true; }
  bool key(std::string& name) override {
    name_ = name;
    return true;
  }
  bool null() override { return set(kNaN); }
  bool boolean(bool value) override { return set(value ? 1 : 0); }
  bool number_integer(int64_t value) override { return set(static_cast<double>(value)); }
  bool number_unsigned(uint64_t value) override { return set(static_cast<double>(value)); }
  bool number_float(double value) override { return set(value); }
  bool string(std::string&) override { return not_a_number(); }
  bool start_array() override { return not_a_number(); }
  bool end_array() override { return true; }
  void error(size_t, const std::string&) override { problem_ = "not valid JSON"; }

 private:
  bool set(double value) {
    if (!inside_) return not_a_number();
    table_.set(name_, value);
    return true;
  }
  bool not_a_number() {
    problem_ = inside_ ? in_quotes(name_) + " is not a number" : "expected a JSON object";
    return false;
  }

  MetricsTable& table_;
  std::string name_, problem_;
  bool inside_ = false;
};

// "a.jsonl:7: ", in front of what is wrong there.
[[noreturn]] void refuse(const std::string& origin, size_t line, const std::string& what) {
  throw Error(ErrorCode::kData, fmt::format("{}:{}: {}", origin, line, what));
}

// Ours has a line for an update, and never two of one step.
enum class SameStep { kRefused, kAllowed };

std::string check_step(const MetricsTable& table, SameStep same) {
  const std::vector<double>* steps = table.find("step");
  if (steps == nullptr || steps->size() < table.rows() || !std::isfinite(steps->back())) {
    return "there is no \"step\"";
  }
  const size_t rows = table.rows();
  if (rows < 2) return "";
  const double before = (*steps)[rows - 2], now = (*steps)[rows - 1];
  if (now > before || (now == before && same == SameStep::kAllowed)) return "";
  return fmt::format("step {} comes after step {}", now, before);
}

// What is wrong with the line, or "".
std::string add_line(std::string_view line, MetricsTable& table) {
  try {
    table.add_row();
    LineReader reader(table);
    return read_json(line, reader) ? check_step(table, SameStep::kRefused) : reader.problem();
  } catch (const Error& error) {  // a limit
    return error.what();
  }
}

// What is wrong with the row, or "".
std::string add_row(const std::vector<Metric>& row, MetricsTable& table) {
  try {
    table.add_row();
    for (const auto& [name, value] : row) table.set(name, value);
    return check_step(table, SameStep::kAllowed);
  } catch (const Error& error) {
    return error.what();
  }
}

// Names of Stable-Baselines3's logger and ours. Its mean of returns is over 100 episodes, too.
constexpr std::array<std::pair<const char*, const char*>, 12> kOtherNames = {{
    {"time/total_timesteps", "step"},
    {"time/time_elapsed", "wall_s"},
    {"time/fps", "charts/SPS"},
    {"rollout/ep_rew_mean", "charts/return_mean_100"},
    {"rollout/ep_len_mean", "charts/episodic_length"},
    {"eval/mean_reward", "eval/episodic_return"},
    {"train/learning_rate", "charts/learning_rate"},
    {"train/policy_gradient_loss", "losses/policy_loss"},
    {"train/value_loss", "losses/value_loss"},
    {"train/approx_kl", "losses/approx_kl"},
    {"train/clip_fraction", "losses/clipfrac"},
    {"train/explained_variance", "losses/explained_variance"},
}};

// Our name of a column, or "" for one that is no metric.
std::string metric_name(const std::string& column) {
  for (const auto& [other, ours] : kOtherNames) {
    if (column == other) return ours;
  }
  constexpr std::array kNames = {"step", "update", "episodes", "wall_s"};
  constexpr std::array kPrefixes = {"charts/", "losses/", "env/", "eval/", "memory/", "schedule/"};
  const bool ours = std::ranges::count(kNames, column) > 0 ||
                    std::ranges::any_of(
                        kPrefixes, [&](const char* prefix) { return column.starts_with(prefix); });
  const bool part_of_time = column.starts_with("time/") && column.ends_with("_s");
  return ours || part_of_time ? column : "";
}

// A progress.csv has empty cells.
double cell(const CsvTable& csv, size_t row, size_t column) {
  if (csv.text(row, column).empty()) return kNaN;
  return csv.number(row, column, CsvTable::NotFinite::kAllowed);
}

}  // namespace

const std::vector<double>* MetricsTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &columns_[found->second];
}

bool MetricsTable::has(std::string_view name) const {
  const std::vector<double>* values = find(name);
  return values != nullptr &&
         std::ranges::any_of(*values, [](double value) { return std::isfinite(value); });
}

void MetricsTable::add_row() {
  ++rows_;
  require_room(names_.size());
}

void MetricsTable::require_room(size_t names) const {
  if (rows_ * names > kMostValues) {
    throw Error(ErrorCode::kData, fmt::format("more than {} values", kMostValues));
  }
}

void MetricsTable::set(const std::string& name, double value) {
  auto found = index_.find(name);
  if (found == index_.end()) {
    if (names_.size() == kMostNames) {
      throw Error(ErrorCode::kData, fmt::format("more than {} names", kMostNames));
    }
    require_room(names_.size() + 1);  // in all rows there are, however late it comes
    found = index_.emplace(name, names_.size()).first;
    names_.push_back(name);
    columns_.emplace_back();
  }
  std::vector<double>& column = columns_[found->second];
  column.resize(rows_, kNaN);
  column.back() = value;
}

void MetricsTable::complete() {
  for (std::vector<double>& column : columns_) column.resize(rows_, kNaN);
}

MetricsTable parse_metrics(std::string_view text, const std::string& origin) {
  MetricsTable table;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const bool torn = end == text.npos && !is_json(text);
    if (torn) break;
    if (const std::string problem = add_line(text.substr(0, end), table); !problem.empty()) {
      refuse(origin, line, problem);
    }
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  table.complete();
  return table;
}

MetricsTable read_metrics_csv(const std::string& path) {
  const CsvTable csv = read_csv_file(path);
  std::vector<std::pair<std::string, size_t>> columns;
  for (size_t i = 0; i < csv.columns().size(); ++i) {
    if (std::string name = metric_name(csv.columns()[i]); !name.empty()) {
      columns.emplace_back(std::move(name), i);
    }
  }
  const auto has = [&](const char* name) {
    return std::ranges::count(columns, name, &std::pair<std::string, size_t>::first) > 0;
  };
  if (!has("step")) {
    throw Error(ErrorCode::kData, path + ": no column 'step' or 'time/total_timesteps'");
  }
  if (!has("charts/episodic_return") && !has("charts/return_mean_100")) {
    throw Error(ErrorCode::kData,
                path +
                    ": no column 'charts/episodic_return', 'charts/return_mean_100' or "
                    "'rollout/ep_rew_mean'");
  }
  MetricsTable table;
  for (size_t row = 0; row < csv.rows(); ++row) {
    std::vector<Metric> values;
    for (const auto& [name, column] : columns) values.emplace_back(name, cell(csv, row, column));
    if (const std::string problem = add_row(values, table); !problem.empty()) {
      refuse(path, csv.line(row), problem);
    }
  }
  table.complete();
  return table;
}

std::string to_csv(const MetricsTable& table) {
  CsvWriter writer(table.names());
  for (size_t row = 0; row < table.rows(); ++row) {
    for (size_t column = 0; column < table.names().size(); ++column) {
      const double value = table.column(column)[row];
      if (std::isnan(value)) {
        writer.add("");
      } else {
        writer.add(value);
      }
    }
    writer.end_row();
  }
  return writer.text();
}

}  // namespace flotilla
