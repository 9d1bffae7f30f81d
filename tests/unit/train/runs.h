// Runs of test environments: their settings, and what they end with.
#pragma once

#include <string>
#include <vector>

#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"

namespace flotilla::test {

using Overrides = std::vector<std::string>;

inline Overrides with(Overrides settings, const Overrides& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

inline RunConfig run_config(const std::string& env, const Overrides& overrides) {
  const Config config = load_run_config(registry(), env, true, overrides);
  return RunConfig(env_of(registry(), config), config);
}

// The hash of the parameters.
inline std::string trained(const std::string& env, const Overrides& overrides) {
  Trainer trainer(run_config(env, overrides));
  trainer.train(nullptr);
  return trainer.params_sha256();
}

}  // namespace flotilla::test
