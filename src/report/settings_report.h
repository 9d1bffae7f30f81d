// Which settings runs share and which they do not. Those that can change the result are kept apart
// from those that say only how a run is carried out.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/report/run_data.h"

namespace flotilla {

// A key whose value is not the same in all runs.
struct Difference {
  std::string key;
  // Each value, and the runs that have it; "(not set)" where a run does not have the key.
  std::vector<std::pair<std::string, std::vector<size_t>>> values = {};
};

struct SettingsReport {
  size_t equal = 0;                             // keys
  std::vector<Difference> semantic, execution;  // what is computed; how it is carried out
  std::vector<size_t> unknown;                  // runs whose settings are not known
  size_t known = 0;                             // the others
};

// Keys that had other names in earlier versions, by those they have now.
Settings in_present_names(const Settings& settings);

SettingsReport compare_settings(const std::vector<RunData>& runs);

// Whether nothing but the seed is different.
bool differ_by_seed_alone(const Settings& a, const Settings& b);

}  // namespace flotilla
