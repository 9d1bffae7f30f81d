#include "flotilla/cli/command.h"

#include <algorithm>

namespace flotilla {

void EnvArguments::add_to(CLI::App& command) {
  command.add_option("env", name, "environment ('flotilla list' shows all)")->required();
  command.add_option("overrides", overrides,
                     "key=value settings of the environment ('flotilla list ENV' shows them)");
  command.add_option("--config", config_file, "YAML file with settings of the environment");
}

Config EnvArguments::config(const EnvType& type) const {
  Config config(type.schema);
  if (!config_file.empty()) config.load_yaml_file(config_file);
  for (const std::string& assignment : overrides) config.apply_override(assignment);
  return config;
}

void SchemaFlags::add_to(CLI::App& command,
                         const std::vector<std::pair<std::string, std::string>>& aliases) {
  for (const Key& key : config_.schema().keys()) {
    std::string names = "--" + key.name;
    std::ranges::replace(names, '_', '-');
    for (const auto& [name, alias] : aliases) {
      if (name == key.name) names += "," + alias;
    }
    command.add_option_function<std::string>(
        names,
        [this, name = key.name](const std::string& value) { given_.emplace_back(name, value); },
        key.help + " (" + summary(key) + ")");
  }
}

Config SchemaFlags::config() const {
  Config config = config_;
  for (const auto& [name, value] : given_) config.set(name, value);
  return config;
}

}  // namespace flotilla
