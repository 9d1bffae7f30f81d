// Recipes, and the settings of a run that one of them begins with.
#pragma once

#include <string>
#include <vector>

#include "flotilla/env/registry.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

std::string env_name(const Recipe& recipe);
// Of which environment settings are. Throws Error(kUsage).
std::string env_name_in(const std::string& yaml, const std::string& origin);
// The comment in the first line of its file.
std::string summary(const Recipe& recipe);
// What follows it.
std::string settings(const Recipe& recipe);

// "key=value", where the prefix "env." may be left out if no key of the run has that name.
void apply_setting(Config& config, const std::string& assignment);

// Code from outside has as long for its first answers as start_timeout_s among these says. To be
// called before anything that asks for its keys. Throws Error(kUsage).
void give_time(const std::vector<std::string>& overrides);

// The config of a run: `what` is a recipe, an environment or a YAML file; then come the overrides
// "key=value". With `plain`, the name of an environment means its defaults even where a recipe has
// the same name. Its keys are those of the environment and of one algorithm: keys of another one
// are refused. Throws Error(kUsage) "did you mean".
Config load_run_config(const Registry& registry, const std::string& what, bool plain,
                       const std::vector<std::string>& overrides,
                       const Algorithms& algorithms = built_in_algorithms());
// The config in a text, of a run that goes on. `origin`: for messages.
Config parse_run_config(const Registry& registry, const std::string& yaml,
                        const std::string& origin, const Algorithms& algorithms);
const EnvType& env_of(const Registry& registry, const Config& config);

}  // namespace flotilla
