#include "flotilla/report/settings_report.h"

#include <algorithm>
#include <set>

#include "flotilla/train/run_config.h"

namespace flotilla {
namespace {

constexpr const char* kNotSet = "(not set)";

// The engine's own; those of an environment are all semantic.
std::set<std::string> execution_keys() {
  std::set<std::string> names;
  EnvType any;
  any.name = "any";
  const Schema schema = RunConfig::schema(any);
  for (const Key& key : schema.keys()) {
    if (key.execution) names.insert(key.name);
  }
  return names;
}

Difference values_of(const std::string& key, const std::vector<RunData>& runs) {
  Difference difference{.key = key};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].settings.empty()) continue;
    const auto found = runs[i].settings.find(key);
    const std::string value = found == runs[i].settings.end() ? kNotSet : found->second;
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

}  // namespace

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
    } else {
      (execution.contains(key) ? report.execution : report.semantic)
          .push_back(std::move(difference));
    }
  }
  return report;
}

bool differ_by_seed_alone(const Settings& a, const Settings& b) {
  Settings first = a, second = b;
  first.erase("seed");
  second.erase("seed");
  return !a.empty() && first == second;
}

}  // namespace flotilla
