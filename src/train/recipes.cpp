#include "train/recipes.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace flotilla {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(ErrorCode::kUsage, "cannot read " + path);
  return text.str();
}

// Which environment the settings are for; everything else is read once its keys are known.
std::string env_name_in(const std::string& yaml, const std::string& origin) {
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (root.IsMap() && root["env"].IsMap() && root["env"]["name"].IsScalar()) {
      return root["env"]["name"].as<std::string>();
    }
  } catch (const YAML::Exception& error) {
    throw Error(ErrorCode::kUsage, origin + ": " + error.what());
  }
  throw Error(ErrorCode::kUsage, origin + ": the key env.name is missing");
}

Config from_yaml(const Registry& registry, const std::string& yaml, const std::string& origin) {
  Config config(RunConfig::schema(registry.find(env_name_in(yaml, origin))));
  config.load_yaml_text(yaml, origin);
  return config;
}

Config base_config(const Registry& registry, const std::string& what, bool plain) {
  const auto recipe = std::ranges::find(recipes(), what, &Recipe::name);
  const auto type = std::ranges::find(registry.types(), what, &EnvType::name);
  const bool is_env = type != registry.types().end();
  if (recipe != recipes().end() && !(plain && is_env)) {
    return from_yaml(registry, recipe->yaml, what + ".yaml");
  }
  if (is_env) return Config(RunConfig::schema(*type));
  if (std::filesystem::exists(what)) return from_yaml(registry, read_text(what), what);
  std::vector<std::string> names;
  for (const Recipe& each : recipes()) names.emplace_back(each.name);
  for (const EnvType& each : registry.types()) names.push_back(each.name);
  throw Error(ErrorCode::kUsage,
              "no recipe, environment or file '" + what + "'" + did_you_mean(what, names));
}

}  // namespace

Config load_run_config(const Registry& registry, const std::string& what, bool plain,
                       const std::vector<std::string>& overrides) {
  Config config = base_config(registry, what, plain);
  for (const std::string& assignment : overrides) config.apply_override(assignment);
  return config;
}

const EnvType& env_of(const Registry& registry, const Config& config) {
  return registry.find(config.get_text("env.name"));
}

}  // namespace flotilla
