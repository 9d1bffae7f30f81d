#include "flotilla/command/env_arguments.h"

#include "flotilla/env/python_env.h"

namespace flotilla {

void EnvArguments::add_to(Command& command) {
  command
      .option("env", name,
              "environment ('flotilla list' shows all), gym:ID, py:MODULE:NAME or libenv")
      .required();
  command.option("overrides", overrides,
                 "key=value settings of the environment ('flotilla list ENV' shows them)");
  command.option("--config", config_file, "YAML file with settings of the environment");
  add_python_option(command);
}

const EnvType& EnvArguments::type(const Registry& registry) const {
  return find_named(registry, name);
}

const EnvType& find_named(const Registry& registry, const std::string& name) {
  python_settings().named.insert(name);
  return registry.find(name);
}

void add_python_option(Command& command) {
  command.option(
      "--python", [](const std::string& path) { python_settings().interpreter = path; },
      "the Python of gym: and py: environments (default: the first of $FLOTILLA_PYTHON, the active "
      "virtual environment's and python3 that has the package flotilla)");
}

void add_start_timeout_option(Command& command, double& seconds) {
  command
      .option("--start-timeout-s", seconds,
              "seconds that a worker, or a Python environment, may take to come up (default 60)")
      .range(0.01, 86400.0);
}

Config EnvArguments::config(const EnvType& type) const {
  Config config(type.schema);
  if (!config_file.empty()) config.load_yaml_file(config_file);
  for (const std::string& assignment : overrides) config.apply_override(assignment);
  return config;
}

}  // namespace flotilla
