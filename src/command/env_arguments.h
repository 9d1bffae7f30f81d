// The environment a command works on: its name, an optional YAML file, and key=value overrides.
#pragma once

#include <string>
#include <vector>

#include "flotilla/command/command.h"
#include "flotilla/env/registry.h"

namespace flotilla {

struct EnvArguments {
  std::string name;
  std::string config_file;
  std::vector<std::string> overrides;

  void add_to(Command& command);
  const EnvType& type(const Registry& registry) const;
  Config config(const EnvType& type) const;
};

// The environment of this name, which the user himself gave: it may be one of Python code.
const EnvType& find_named(const Registry& registry, const std::string& name);
// "--python": what runs such an environment.
void add_python_option(Command& command);
// "--start-timeout-s": of a command that has no other options of a batch.
void add_start_timeout_option(Command& command, double& seconds);

}  // namespace flotilla
