// The settings of a run of a test environment.
#pragma once

#include <string>
#include <vector>

#include "flotilla/train/recipes.h"
#include "flotilla/train/run_config.h"
#include "support/batch.h"

namespace flotilla::test {

inline RunConfig run_config(const std::string& env, const std::vector<std::string>& overrides) {
  const Config config = load_run_config(registry(), env, true, overrides);
  return RunConfig(env_of(registry(), config), config);
}

}  // namespace flotilla::test
