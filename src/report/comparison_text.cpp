#include "flotilla/report/comparison_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "flotilla/core/text.h"

namespace flotilla {
namespace {

using Number = std::optional<double> RunFacts::*;

constexpr const char* kUnknown = "-";

std::string plain(double value) { return fmt::format("{:.10g}", value); }
std::string fixed(double value) {
  return std::abs(value) < 1e6 ? fmt::format("{:.2f}", value) : short_number(value);
}
std::string times(double value) { return fmt::format("{:.2f}x", value); }
std::string megabytes(double value) { return fmt::format("{:.0f} MB", value); }

// A column of numbers.
struct TableColumn {
  const char* header;
  Number value;
  std::string (*show)(double);
};
constexpr std::array<TableColumn, 12> kAllColumns = {
    {{"envs", &RunFacts::num_envs, plain},
     {"threads", &RunFacts::threads, plain},
     {"workers", &RunFacts::workers, plain},
     {"steps", &RunFacts::steps, plain},
     {"wall", &RunFacts::wall_s, short_time},
     {"steps/s", &RunFacts::steps_per_s, short_number},
     {"speed-up", &RunFacts::speed_up, times},
     {"return", &RunFacts::return_mean_100, fixed},
     {"eval", &RunFacts::eval_mean, fixed},
     {"time-to-score", &RunFacts::time_to_score_s, short_time},
     {"steps-to-score", &RunFacts::steps_to_score, plain},
     {"memory", &RunFacts::peak_rss_mb, megabytes}}};

std::string text_or_unknown(const std::string& text) {
  return text.empty() ? kUnknown : printable(text);
}

std::string eval_cell(const RunFacts& run) {
  if (!run.eval_mean) return kUnknown;
  const std::string mean = fixed(*run.eval_mean);
  return run.eval_ci95 ? mean + " +- " + fixed(*run.eval_ci95) : mean;
}

std::string cell(const RunFacts& run, const TableColumn& column) {
  if (column.value == &RunFacts::eval_mean) return eval_cell(run);
  const std::optional<double>& value = run.*column.value;
  return value ? column.show(*value) : kUnknown;
}

struct MeanAndDeviation {
  double mean = 0, deviation = 0;
  size_t count = 0;
};

MeanAndDeviation mean_of(const std::vector<RunFacts>& runs, const RunGroup& group, Number value) {
  MeanAndDeviation result;
  for (const size_t run : group.runs) {
    if (!(runs[run].*value)) continue;
    result.mean += *(runs[run].*value);
    ++result.count;
  }
  if (result.count == 0) return result;
  result.mean /= static_cast<double>(result.count);
  double squares = 0;
  for (const size_t run : group.runs) {
    const std::optional<double>& one = runs[run].*value;
    if (one) squares += (*one - result.mean) * (*one - result.mean);
  }
  if (result.count > 1) {
    result.deviation = std::sqrt(squares / static_cast<double>(result.count - 1));
  }
  return result;
}

// "312 k +- 4.1 k"; where a part of the group only has it, "(3 of 5)" behind.
std::string mean_cell(const std::vector<RunFacts>& runs, const RunGroup& group,
                      const TableColumn& column) {
  const MeanAndDeviation all = mean_of(runs, group, column.value);
  if (all.count == 0) return kUnknown;
  const auto show = column.show == plain && all.deviation > 0 ? short_number : column.show;
  std::string text = show(all.mean);
  if (show(all.deviation) != show(0)) text += " +- " + show(all.deviation);
  if (all.count < group.runs.size()) {
    text += fmt::format(" ({} of {})", all.count, group.runs.size());
  }
  return text;
}

bool is_shown(const std::vector<RunFacts>& runs, const TableColumn& column) {
  if (column.value != &RunFacts::workers) return true;
  return std::ranges::any_of(runs, [](const RunFacts& run) { return run.workers.value_or(0) > 0; });
}

std::vector<TableColumn> columns_for(const std::vector<RunFacts>& runs) {
  std::vector<TableColumn> columns;
  for (const TableColumn& column : kAllColumns) {
    if (is_shown(runs, column)) columns.push_back(column);
  }
  return columns;
}

std::string table_of(const Comparison& comparison, size_t width) {
  const std::vector<TableColumn> columns = columns_for(comparison.runs);
  std::vector<std::vector<std::string>> rows = {{"run", "env", "algo", "backend"}};
  for (const TableColumn& column : columns) rows[0].emplace_back(column.header);
  for (const RunFacts& run : comparison.runs) {
    rows.push_back({printable(run.name), text_or_unknown(run.env), text_or_unknown(run.algo),
                    text_or_unknown(run.backend)});
    for (const TableColumn& column : columns) rows.back().push_back(cell(run, column));
  }
  for (const RunGroup& group : comparison.groups) {
    const RunFacts& first = comparison.runs[group.runs[0]];
    rows.push_back({fmt::format("{}: {}", printable(group.name), group.members()),
                    text_or_unknown(first.env), text_or_unknown(first.algo),
                    text_or_unknown(first.backend)});
    for (const TableColumn& column : columns) {
      rows.back().push_back(mean_cell(comparison.runs, group, column));
    }
  }
  return text_table(rows, width);
}

// Names of runs; groups that are among them as a whole by their own name.
std::string names_of(const Comparison& comparison, std::vector<size_t> runs) {
  std::vector<std::string> names;
  for (const RunGroup& group : comparison.groups) {
    if (!std::ranges::includes(runs, group.runs)) continue;
    names.push_back(printable(fmt::format("{}: {}", group.name, group.members())));
    std::erase_if(runs, [&](size_t run) { return std::ranges::count(group.runs, run) > 0; });
  }
  for (const size_t run : runs) names.push_back(printable(comparison.runs[run].name));
  return join(names, ", ");
}

void add_differences(std::string& text, const Comparison& comparison,
                     const std::vector<Difference>& differences, const char* title) {
  if (differences.empty()) return;
  text += fmt::format("{}:\n", title);
  for (const Difference& difference : differences) {
    std::vector<std::string> parts;
    for (const auto& [value, runs] : difference.values) {
      parts.push_back(fmt::format("{} ({})", value.empty() ? "''" : printable(value),
                                  names_of(comparison, runs)));
    }
    text += fmt::format("  {}: {}\n", printable(difference.key), join(parts, "; "));
  }
}

std::string settings_text(const Comparison& comparison) {
  const SettingsReport& settings = comparison.settings;
  const size_t different = settings.semantic.size() + settings.execution.size();
  std::string text;
  if (settings.known < 2) {
    text = "config: known of fewer than two runs\n";
  } else if (different == 0) {
    text = fmt::format("config: equal, {} keys", settings.equal);
  } else {
    text = fmt::format("config: {} keys equal, {} {}", settings.equal, different,
                       different == 1 ? "differs" : "differ");
  }
  if (settings.known >= 2) {
    const auto& same = comparison.same_config_sha256;
    text += fmt::format("; config_sha256 {}\n", !same   ? "not known of all"
                                                : *same ? "equal"
                                                        : "different");
  }
  if (settings.known >= 2 && !settings.unknown.empty()) {
    text += fmt::format("the config is not known of {}\n", names_of(comparison, settings.unknown));
  }
  add_differences(text, comparison, settings.semantic, "differ, and can change the result");
  add_differences(text, comparison, settings.execution, "differ in how the run is carried out");
  return text;
}

Json number_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json count_json(const std::optional<double>& value) {
  constexpr double kExact = 9007199254740992;  // 2^53: up to here every whole number is a double
  const bool whole = value && *value == std::floor(*value) && std::abs(*value) <= kExact;
  return whole ? Json(static_cast<int64_t>(*value)) : number_json(value);
}
Json text_json(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json run_json(const RunFacts& run) {
  return {{"name", run.name},
          {"path", run.path},
          {"state", run.state},
          {"env", text_json(run.env)},
          {"algo", text_json(run.algo)},
          {"backend", text_json(run.backend)},
          {"seed", run.seed ? Json(*run.seed) : Json()},
          {"num_envs", count_json(run.num_envs)},
          {"threads", count_json(run.threads)},
          {"workers", count_json(run.workers)},
          {"steps", count_json(run.steps)},
          {"wall_s", number_json(run.wall_s)},
          {"steps_per_s", number_json(run.steps_per_s)},
          {"speed_up", number_json(run.speed_up)},
          {"return_mean_100", number_json(run.return_mean_100)},
          {"eval", {{"mean", number_json(run.eval_mean)}, {"ci95", number_json(run.eval_ci95)}}},
          {"time_to_score_s", number_json(run.time_to_score_s)},
          {"steps_to_score", count_json(run.steps_to_score)},
          {"peak_rss_mb", number_json(run.peak_rss_mb)},
          {"version", text_json(run.version)},
          {"machine", text_json(run.machine)},
          {"config_sha256", text_json(run.config_sha256)}};
}

Json group_json(const Comparison& comparison, const RunGroup& group) {
  Json json = {{"name", group.name}, {"runs", Json::array()}};
  for (const size_t run : group.runs) json["runs"].push_back(comparison.runs[run].name);
  const auto add = [&](const char* name, Number value) {
    const MeanAndDeviation all = mean_of(comparison.runs, group, value);
    json[name] = all.count == 0
                     ? Json()
                     : Json{{"mean", all.mean}, {"std", all.deviation}, {"count", all.count}};
  };
  add("wall_s", &RunFacts::wall_s);
  add("steps_per_s", &RunFacts::steps_per_s);
  add("speed_up", &RunFacts::speed_up);
  add("return_mean_100", &RunFacts::return_mean_100);
  add("eval_mean", &RunFacts::eval_mean);
  add("time_to_score_s", &RunFacts::time_to_score_s);
  add("steps_to_score", &RunFacts::steps_to_score);
  add("peak_rss_mb", &RunFacts::peak_rss_mb);
  return json;
}

Json differences_json(const Comparison& comparison, const std::vector<Difference>& differences) {
  Json json = Json::object();
  for (const Difference& difference : differences) {
    Json values = Json::object();
    for (const auto& [value, runs] : difference.values) {
      for (const size_t run : runs) values[comparison.runs[run].name] = value;
    }
    json[difference.key] = std::move(values);
  }
  return json;
}

}  // namespace

std::string short_number(double value) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  if (std::abs(value) >= 1e15) return fmt::format("{:.3g}", value);
  for (const auto& [unit, suffix] : kUnits) {
    // 999.6 k would print as 1e+03 k.
    if (std::abs(value) >= 0.9995 * unit) return fmt::format("{:.3g}{}", value / unit, suffix);
  }
  return fmt::format("{:.3g}", value);
}

std::string short_time(double seconds) {
  if (std::abs(seconds) < 300) return fmt::format("{:.2f} s", seconds);
  if (std::abs(seconds) < 3 * 3600) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.2f} h", seconds / 3600);
}

std::string to_text(const Comparison& comparison, size_t width) {
  std::string text = table_of(comparison, width) + "\n";
  if (!comparison.groups.empty()) {
    text += "rows of several seeds or runs: mean +- standard deviation\n";
  }
  if (comparison.score) {
    text += fmt::format("score: {:.6g} ({})\n", comparison.score->value, comparison.score->origin);
  } else {
    text += "score: none, for there is no return that all runs rose to; --score sets one\n";
  }
  text += comparison.incomparable.empty()
              ? "comparable: yes\n"
              : fmt::format("comparable: no; {}\n", join(comparison.incomparable, "; "));
  text += settings_text(comparison);
  for (const std::string& warning : comparison.warnings) text += "warning: " + warning + "\n";
  return text;
}

Json to_json(const Comparison& comparison) {
  const auto& score = comparison.score;
  const auto& same = comparison.same_config_sha256;
  Json json = {{"score", number_json(score ? std::optional(score->value) : std::nullopt)},
               {"score_origin", score ? Json(score->origin) : Json()},
               {"runs", Json::array()},
               {"groups", Json::array()},
               {"settings",
                {{"equal", comparison.settings.equal},
                 {"same_config_sha256", same ? Json(*same) : Json()},
                 {"semantic", differences_json(comparison, comparison.settings.semantic)},
                 {"execution", differences_json(comparison, comparison.settings.execution)}}},
               {"comparable", comparison.incomparable.empty()},
               {"incomparable", comparison.incomparable},
               {"warnings", comparison.warnings}};
  for (const RunFacts& run : comparison.runs) json["runs"].push_back(run_json(run));
  for (const RunGroup& group : comparison.groups) {
    json["groups"].push_back(group_json(comparison, group));
  }
  return json;
}

}  // namespace flotilla
