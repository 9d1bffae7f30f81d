#include "flotilla/report/settings_report.h"

#include <algorithm>
#include <set>

#include "flotilla/train/run_config.h"

namespace flotilla {
namespace {

constexpr const char* kNotSet = "(not set)";

// The engine's own keys, without those of one environment, which are all semantic.
const Schema& engine_schema() {
  static const Schema schema = [] {
    EnvType any;
    any.name = "any";
    any.schema = with_frame_stack({});
    return RunConfig::schema(any);
  }();
  return schema;
}

std::set<std::string> execution_keys() {
  std::set<std::string> names;
  for (const Key& key : engine_schema().keys()) {
    if (key.execution) names.insert(key.name);
  }
  return names;
}

const Settings& defaults() {
  static const Settings defaults = parse_settings(Config(engine_schema()).to_yaml(), "defaults");
  return defaults;
}

// A run of an earlier version has none of the keys that came later: it did what their defaults do.
std::string value_in(const Settings& settings, const std::string& key) {
  if (const auto found = settings.find(key); found != settings.end()) return found->second;
  const auto found = defaults().find(key);
  return found == defaults().end() || key == "env.name" ? kNotSet : found->second;
}

Difference values_of(const std::string& key, const std::vector<RunData>& runs) {
  Difference difference{.key = key};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].settings.empty()) continue;
    const std::string value = value_in(runs[i].settings, key);
    auto same = std::ranges::find(difference.values, value,
                                  &std::pair<std::string, std::vector<size_t>>::first);
    if (same == difference.values.end()) {
      difference.values.push_back({value, {}});
      same = difference.values.end() - 1;
    }
    same->second.push_back(i);
  }
  return difference;
}

// Not where it follows from another difference, or from none: settings of an algorithm that not all
// of the runs have, and of actors where there are none.
bool matters(const std::string& key, const std::vector<RunData>& runs) {
  const std::string section = key.substr(0, key.find('.'));
  const auto runs_with = [&runs](const char* name, const std::string& value) {
    return std::ranges::count_if(runs, [&](const RunData& run) {
      return !run.settings.empty() && value_in(run.settings, name) == value;
    });
  };
  if (section == "async") return runs_with("backend", "actors") > 0;
  const auto known =
      std::ranges::count_if(runs, [](const RunData& run) { return !run.settings.empty(); });
  const auto learned_by = runs_with("algo", section);
  return learned_by == 0 || learned_by == known;
}

}  // namespace

Settings in_present_names(const Settings& settings) {
  Settings present;
  for (const auto& [name, value] : settings) {
    const auto is_called_so = [&name = name](const Key& key) {
      return std::ranges::count(key.aliases, name) > 0;
    };
    const auto key = std::ranges::find_if(engine_schema().keys(), is_called_so);
    present[key == engine_schema().keys().end() ? name : key->name] = value;
  }
  return present;
}

SettingsReport compare_settings(const std::vector<RunData>& runs) {
  SettingsReport report;
  std::set<std::string> keys;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [key, value] : runs[i].settings) keys.insert(key);
    if (runs[i].settings.empty()) report.unknown.push_back(i);
  }
  report.known = runs.size() - report.unknown.size();
  const std::set<std::string> execution = execution_keys();
  for (const std::string& key : keys) {
    Difference difference = values_of(key, runs);
    if (difference.values.size() == 1) {
      ++report.equal;
    } else if (matters(key, runs)) {
      (execution.contains(key) ? report.execution : report.semantic)
          .push_back(std::move(difference));
    }
  }
  return report;
}

bool differ_by_seed_alone(const Settings& a, const Settings& b) {
  Settings both = a;
  both.insert(b.begin(), b.end());
  both.erase("seed");
  return !a.empty() && !b.empty() && std::ranges::all_of(both, [&](const auto& setting) {
    return value_in(a, setting.first) == value_in(b, setting.first);
  });
}

}  // namespace flotilla
