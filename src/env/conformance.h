// The conformance kit: what every environment must keep to, checked by running it. An env that
// passes runs in every back end with the same trajectories, can be saved and restored, and can be
// trained.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/env/registry.h"

namespace flotilla {

struct CheckResult {
  std::string name;
  bool passed = false;
  std::string detail;  // what was checked, or the first thing that went wrong
};

struct ConformanceOptions {
  uint64_t seed = 0;
  int steps = 300;
  int num_envs = 7;  // odd, so that no partition is even
};

// Runs all checks and shows each result as it comes. A check that fails does not stop the others,
// but for the first two: an env whose spec is wrong, or that kills or blocks its process, goes no
// further. Throws Error(kUsage) where the env refuses its settings: that is no fault of its own.
std::vector<CheckResult> check_env(const EnvType& type, const Config& config,
                                   const ConformanceOptions& options,
                                   const std::function<void(const CheckResult&)>& show = nullptr);

}  // namespace flotilla
