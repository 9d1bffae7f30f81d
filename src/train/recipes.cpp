#include "flotilla/train/recipes.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

const EnvType& find_env(const Registry& registry, const std::string& name,
                        const std::string& origin) {
  try {
    return registry.find(name);
  } catch (const Error& error) {
    throw Error(error.code(), origin + ": " + error.what());
  }
}

// Which environment it is says which keys there are.
Config from_yaml(const Registry& registry, const std::string& yaml, const std::string& origin) {
  Config config(RunConfig::schema(find_env(registry, env_name_in(yaml, origin), origin)));
  config.load_yaml_text(yaml, origin);
  return config;
}

Config base_config(const Registry& registry, const std::string& what, bool plain) {
  const Recipe* recipe = find_recipe(what);
  const auto type = std::ranges::find(registry.types(), what, &EnvType::name);
  const bool is_env = type != registry.types().end();
  if (recipe != nullptr && !(plain && is_env)) {
    return from_yaml(registry, recipe->yaml, what + ".yaml");
  }
  if (is_env) return Config(RunConfig::schema(*type));
  if (path_exists(what)) return from_yaml(registry, read_config_file(what), what);
  std::vector<std::string> names;
  for (const Recipe& each : recipes()) names.emplace_back(each.name);
  for (const EnvType& each : registry.types()) names.push_back(each.name);
  throw Error(ErrorCode::kUsage,
              "no recipe, environment or file '" + what + "'" + did_you_mean(what, names));
}

size_t end_of_first_line(const std::string& text) {
  return std::min(text.find('\n'), text.size() - 1) + 1;
}

}  // namespace

const Recipe* find_recipe(const std::string& name) {
  const auto found = std::ranges::find(recipes(), name, &Recipe::name);
  return found == recipes().end() ? nullptr : &*found;
}

std::string env_name_in(const std::string& yaml, const std::string& origin) {
  try {
    const YAML::Node root = YAML::Load(yaml);
    const auto child = [](const YAML::Node& node, const char* key) {
      return node.IsMap() && node[key] ? node[key] : YAML::Node();
    };
    const YAML::Node flat = child(root, "env.name");
    const YAML::Node name = flat.IsScalar() ? flat : child(child(root, "env"), "name");
    if (name.IsScalar()) return name.as<std::string>();
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : ":" + std::to_string(error.mark.line + 1);
    throw Error(ErrorCode::kUsage, origin + line + ": " + error.msg);
  }
  throw Error(ErrorCode::kUsage, origin + ": the key env.name is missing");
}

std::string env_name(const Recipe& recipe) {
  return env_name_in(recipe.yaml, recipe.name + std::string(".yaml"));
}

std::string summary(const Recipe& recipe) {
  const std::string text = recipe.yaml;
  const std::string line = text.substr(0, end_of_first_line(text) - 1);
  return line.starts_with("# ") ? line.substr(2) : "";
}

std::string settings(const Recipe& recipe) {
  const std::string text = recipe.yaml;
  return summary(recipe).empty() ? text : text.substr(end_of_first_line(text));
}

Config load_run_config(const Registry& registry, const std::string& what, bool plain,
                       const std::vector<std::string>& overrides) {
  Config config = base_config(registry, what, plain);
  for (const std::string& assignment : overrides) apply_setting(config, assignment);
  return config;
}

void apply_setting(Config& config, const std::string& assignment) {
  const std::string key = assignment.substr(0, assignment.find('='));
  const bool of_env =
      config.schema().find(key) == nullptr && config.schema().find("env." + key) != nullptr;
  config.apply_override(of_env ? "env." + assignment : assignment);
}

const EnvType& env_of(const Registry& registry, const Config& config) {
  return registry.find(config.get_text("env.name"));
}

}  // namespace flotilla
