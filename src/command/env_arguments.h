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
  Config config(const EnvType& type) const;
};

}  // namespace flotilla
