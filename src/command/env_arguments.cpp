#include "flotilla/command/env_arguments.h"

namespace flotilla {

void EnvArguments::add_to(Command& command) {
  command.option("env", name, "environment ('flotilla list' shows all)").required();
  command.option("overrides", overrides,
                 "key=value settings of the environment ('flotilla list ENV' shows them)");
  command.option("--config", config_file, "YAML file with settings of the environment");
}

Config EnvArguments::config(const EnvType& type) const {
  Config config(type.schema);
  if (!config_file.empty()) config.load_yaml_file(config_file);
  for (const std::string& assignment : overrides) config.apply_override(assignment);
  return config;
}

}  // namespace flotilla
