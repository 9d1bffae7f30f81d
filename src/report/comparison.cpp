#include "flotilla/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "flotilla/core/text.h"
#include "flotilla/report/run_figures.h"
#include "flotilla/report/scale.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

constexpr double kPartOfTheWay = 0.9;
constexpr size_t kSpreadPoints = 300;

// "a (x, y), b (z)": each text, and the names of the runs that have it; "" where there is one only.
std::string told_apart(const std::vector<RunFacts>& runs, std::string RunFacts::*text) {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
  for (const RunFacts& run : runs) {
    if ((run.*text).empty()) continue;
    auto same = std::ranges::find(values, run.*text, &decltype(values)::value_type::first);
    if (same == values.end()) same = values.insert(values.end(), {run.*text, {}});
    same->second.push_back(printable(run.name));
  }
  if (values.size() < 2) return "";
  std::vector<std::string> parts;
  for (const auto& [value, names] : values) {
    parts.push_back(fmt::format("{} ({})", printable(value), join(names, ", ")));
  }
  return join(parts, "; ");
}

std::string names_of(const std::vector<RunFacts>& runs, auto&& predicate) {
  std::vector<std::string> names;
  for (const RunFacts& run : runs) {
    if (predicate(run)) names.push_back(printable(run.name));
  }
  return join(names, ", ");
}

std::vector<std::string> warnings_of(const std::vector<RunFacts>& runs) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& what, const std::string& consequence) {
    if (!what.empty()) warnings.push_back(what + consequence);
  };
  const auto differ = [&](const char* what, std::string RunFacts::*text) {
    const std::string values = told_apart(runs, text);
    return values.empty() ? "" : fmt::format("the {} differ: {}", what, values);
  };
  warn(differ("environments", &RunFacts::env), "; their returns cannot be compared");
  warn(differ("machines", &RunFacts::machine), "; a speed-up across machines is not one");
  warn(differ("versions of the program", &RunFacts::version), "");
  const std::string unknown =
      names_of(runs, [](const RunFacts& run) { return run.machine.empty(); });
  if (!unknown.empty()) {
    warnings.push_back("the machine is not known of " + unknown +
                       "; speeds compare only if it is the same");
  }
  const std::string unfinished =
      names_of(runs, [](const RunFacts& run) { return run.state == "not finished"; });
  if (!unfinished.empty()) {
    warnings.push_back("not finished: " + unfinished + "; shown as far as the metrics go");
  }
  return warnings;
}

std::vector<std::string> reasons_against(const std::vector<RunFacts>& runs,
                                         const SettingsReport& settings) {
  std::vector<std::string> reasons;
  const auto differ = [&](const char* what, const std::string& values) {
    if (!values.empty()) reasons.push_back(fmt::format("{} ({})", what, values));
  };
  differ("environments differ", told_apart(runs, &RunFacts::env));
  differ("machines differ", told_apart(runs, &RunFacts::machine));
  std::vector<std::string> keys;
  for (const Difference& difference : settings.semantic) {
    if (difference.key != "seed") keys.push_back(printable(difference.key));
  }
  differ("settings differ", join(keys, ", "));
  const auto differ_in = [&](std::optional<double> RunFacts::*count, const char* what) {
    std::vector<std::string> numbers;
    for (const RunFacts& run : runs) {
      numbers.push_back(run.*count ? fmt::format("{:.0f}", *(run.*count)) : "unknown");
    }
    const bool same = std::ranges::count(numbers, numbers[0]) == std::ssize(numbers);
    differ(what, same ? "" : join(numbers, ", "));
  };
  differ_in(&RunFacts::steps, "steps differ");
  differ_in(&RunFacts::updates, "updates differ");
  if (!settings.unknown.empty()) reasons.emplace_back("the config is not known of all");
  return reasons;
}

bool agree(const std::string& a, const std::string& b) { return a.empty() || b.empty() || a == b; }

bool belong_together(const std::vector<RunData>& data, const std::vector<RunFacts>& facts, size_t a,
                     size_t b) {
  return differ_by_seed_alone(data[a].settings, data[b].settings) &&
         agree(facts[a].machine, facts[b].machine) && agree(facts[a].version, facts[b].version);
}

// What the paths begin with, without what is left of "seed" or a separator at its end; of that the
// last part: "fast" for "runs/fast-seed0" and "runs/fast-seed1", and for "fast/0" and "fast/1".
std::string common_name(const std::vector<RunFacts>& runs, const std::vector<size_t>& members) {
  const auto whole = [&](size_t run) {
    std::error_code error;
    const fs::path path = fs::absolute(runs[run].path, error);
    return (error ? fs::path(runs[run].path) : path).lexically_normal().string();
  };
  std::string name = whole(members[0]);
  for (const size_t member : members) {
    const std::string other = whole(member);
    name.erase(std::ranges::mismatch(name, other).in1, name.end());
  }
  const auto trim = [&name](std::string_view characters) {
    name.erase(name.find_last_not_of(characters) + 1);
  };
  if (!name.ends_with('/')) trim("0123456789");  // of a number that is not the same in all
  trim("-_./ =");
  for (const std::string_view word : {"seed", "-s", "_s"}) {
    if (name.ends_with(word)) name.erase(name.size() - word.size());
  }
  trim("-_./ ");
  return fs::path(name).filename().string();
}

std::vector<RunGroup> groups_of(const std::vector<RunData>& data,
                                const std::vector<RunFacts>& facts) {
  std::vector<RunGroup> groups;
  for (size_t i = 0; i < data.size(); ++i) {
    const auto fits = [&](const RunGroup& group) {
      return std::ranges::all_of(group.runs,
                                 [&](size_t j) { return belong_together(data, facts, i, j); });
    };
    const auto group = std::ranges::find_if(groups, fits);
    if (group != groups.end()) {
      group->runs.push_back(i);
    } else {
      groups.push_back({.runs = {i}});
    }
  }
  std::erase_if(groups, [](const RunGroup& group) { return group.runs.size() < 2; });
  std::set<std::string> names;
  for (RunGroup& group : groups) {
    std::set<std::string> seeds;
    for (const size_t run : group.runs) seeds.insert(data[run].setting("seed"));
    group.distinct_seeds = seeds.size() == group.runs.size();
    group.name = common_name(facts, group.runs);
    if (group.name.empty() || !names.insert(group.name).second) {
      group.name = facts[group.runs[0]].name + " and others";
    }
  }
  return groups;
}

// Earlier versions had other names for keys, so other hashes for the same settings.
std::optional<bool> same_hash(const std::vector<RunFacts>& runs, const SettingsReport& settings) {
  if (std::ranges::any_of(runs, [](const RunFacts& run) { return run.config_sha256.empty(); })) {
    return std::nullopt;
  }
  if (settings.known == runs.size() && settings.semantic.empty()) return true;
  return std::ranges::all_of(
      runs, [&](const RunFacts& run) { return run.config_sha256 == runs[0].config_sha256; });
}

void add_time_to_score(const RunData& run, double level, RunFacts& facts) {
  const auto row = row_of_score(run, level);
  if (!row) return;
  facts.steps_to_score = (*run.metrics.find("step"))[*row];
  const std::vector<double>* wall = run.metrics.find("wall_s");
  if (wall != nullptr && std::isfinite((*wall)[*row])) facts.time_to_score_s = (*wall)[*row];
}

// The score of a run over steps ("step") or time ("wall_s").
Curve score_curve(const RunData& run, const char* over, double unit) {
  const std::vector<double>* x = run.metrics.find(over);
  const std::vector<double> score = run.score();
  if (x == nullptr || score.empty()) return {};
  std::vector<double> scaled = *x;
  for (double& value : scaled) value /= unit;
  return present(scaled, score);
}

Series group_series(const std::vector<RunData>& runs, const RunGroup& group, const char* over,
                    double unit) {
  std::vector<Curve> curves;
  for (const size_t run : group.runs) curves.push_back(score_curve(runs[run], over, unit));
  Spread spread = spread_of(curves, kSpreadPoints);
  return {.name = fmt::format("{} (mean and range of {})", group.name, group.members()),
          .curve = {std::move(spread.x), std::move(spread.mean)},
          .low = std::move(spread.low),
          .high = std::move(spread.high)};
}

// One curve for each group and for each run that is in none, in the order of the runs.
std::vector<Series> curves_of(const std::vector<RunData>& runs, const Comparison& comparison,
                              const char* over, double unit) {
  std::vector<Series> result;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto group = std::ranges::find_if(comparison.groups, [i](const RunGroup& one) {
      return std::ranges::count(one.runs, i) > 0;
    });
    if (group == comparison.groups.end()) {
      result.push_back(
          {.name = comparison.runs[i].name, .curve = score_curve(runs[i], over, unit)});
    } else if (group->runs[0] == i) {
      result.push_back(group_series(runs, *group, over, unit));
    } else {
      continue;
    }
    result.back().look = static_cast<int>(result.size()) - 1;
  }
  return result;
}

}  // namespace

std::string RunGroup::members() const {
  return fmt::format("{} {}", runs.size(), distinct_seeds ? "seeds" : "runs");
}

std::optional<size_t> row_of_score(const RunData& run, double level) {
  const std::vector<double> score = run.score();
  const auto row = std::ranges::find_if(score, [level](double value) { return value >= level; });
  if (row == score.end()) return std::nullopt;
  return static_cast<size_t>(row - score.begin());
}

std::optional<Score> common_score(const std::vector<RunData>& runs) {
  double start = std::numeric_limits<double>::infinity(), end = start;
  for (const RunData& run : runs) {
    std::vector<double> score = run.score();
    std::erase_if(score, [](double value) { return !std::isfinite(value); });
    if (score.empty()) continue;
    start = std::min(start, score.front());
    end = std::min(end, score.back());
  }
  if (!(end > start)) return std::nullopt;
  const double exact = start + kPartOfTheWay * (end - start);
  const double digit = std::pow(10, std::floor(std::log10(end - start)) - 2);
  const double rounded = std::floor(exact / digit) * digit;
  const double value = rounded > start && std::isfinite(rounded) ? rounded : exact;
  return Score{value, fmt::format("90 % of the way from the lowest start, {:.4g}, to the lowest "
                                  "final return, {:.4g}",
                                  start, end)};
}

Comparison compare(const std::vector<RunData>& runs, std::optional<double> score) {
  Comparison result;
  std::vector<std::string> paths;
  for (const RunData& run : runs) paths.push_back(run.path);
  const std::vector<std::string> names = distinct_names(paths);
  for (size_t i = 0; i < runs.size(); ++i) {
    result.runs.push_back(facts_of(runs[i]));
    result.runs.back().name = names[i];
  }
  const bool same_env = told_apart(result.runs, &RunFacts::env).empty();
  if (score) {
    result.score = {*score, "as given"};
  } else if (same_env) {
    result.score = common_score(runs);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    RunFacts& facts = result.runs[i];
    const auto& base = result.runs[0].steps_per_s;
    if (base && *base > 0 && facts.steps_per_s) facts.speed_up = *facts.steps_per_s / *base;
    if (result.score) add_time_to_score(runs[i], result.score->value, facts);
  }
  result.groups = groups_of(runs, result.runs);
  result.settings = compare_settings(runs);
  result.same_config_sha256 = same_hash(result.runs, result.settings);
  result.warnings = warnings_of(result.runs);
  result.incomparable = reasons_against(result.runs, result.settings);
  return result;
}

Figure comparison_figure(const std::vector<RunData>& runs, const Comparison& comparison) {
  double longest_s = 0;
  for (const RunData& run : runs) {
    const std::vector<double>* wall = run.metrics.find("wall_s");
    const auto range = wall != nullptr ? extent(*wall) : std::nullopt;
    if (range) longest_s = std::max(longest_s, range->high);
  }
  const TimeAxis time(longest_s);
  const auto panel = [&](const std::string& label, const char* over, double unit) {
    return Panel{.x = {.label = label, .from_zero = true, .tight = true},
                 .y = {.label = "return, mean of 100"},
                 .series = curves_of(runs, comparison, over, unit)};
  };
  return {.panels = {panel("steps", "step", 1), panel(time.label, "wall_s", time.unit_s)},
          .one_legend = true};
}

}  // namespace flotilla
