#include "flotilla/train/recipes.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

constexpr const char* kStartTimeout = "start_timeout_s";

const EnvType& find_env(const Registry& registry, const std::string& name,
                        const std::string& origin) {
  try {
    return registry.find(name);
  } catch (const Error& error) {
    throw Error(error.code(), origin + ": " + error.what());
  }
}

YAML::Node child(const YAML::Node& node, const char* key) {
  return node.IsMap() && node[key] ? node[key] : YAML::Node();
}

// Calls find(root) on the YAML; what is wrong with it comes with the line.
template <class Find>
std::string look_into(const std::string& yaml, const std::string& origin, const Find& find) {
  check_yaml_characters(yaml, origin);
  try {
    return find(YAML::Load(yaml));
  } catch (const YAML::DeepRecursion&) {  // its own message is "bad file"
    throw Error(ErrorCode::kUsage, origin + ": nested too deeply");
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : ":" + std::to_string(error.mark.line + 1);
    throw Error(ErrorCode::kUsage, origin + line + ": " + error.msg);
  }
}

std::string algo_in(const std::string& yaml, const std::string& origin) {
  return look_into(yaml, origin, [](const YAML::Node& root) {
    const YAML::Node algo = child(root, "algo");
    return algo.IsScalar() ? algo.as<std::string>() : default_algorithm().name;
  });
}

// "start_timeout_s=..." or "".
std::string time_in(const std::string& yaml, const std::string& origin) {
  return look_into(yaml, origin, [](const YAML::Node& root) {
    const YAML::Node time = child(root, kStartTimeout);
    return time.IsScalar() ? kStartTimeout + ("=" + time.as<std::string>()) : std::string();
  });
}

// Whether it has settings of this algorithm.
bool has_section(const std::string& yaml, const std::string& origin, const std::string& algo) {
  return !look_into(yaml, origin, [&algo](const YAML::Node& root) {
            for (const auto& entry : root) {
              const auto key = entry.first.as<std::string>();
              if (key == algo || key.starts_with(algo + ".")) return key;
            }
            return std::string();
          }).empty();
}

// The last of these that is of this key, or "".
std::string value_among(const std::vector<std::string>& overrides, const std::string& key) {
  std::string value;
  for (const std::string& assignment : overrides) {
    if (assignment.starts_with(key + "=")) value = assignment.substr(key.size() + 1);
  }
  return value;
}

// What a run may be made from.
class Sources {
 public:
  // `algo`: "" where it is not asked for.
  Sources(const Registry& registry, const Algorithms& algorithms, std::string algo)
      : registry_(registry), algorithms_(algorithms), algo_(std::move(algo)) {}

  Config find(const std::string& what, bool plain) const {
    const Recipe* recipe = registry_.find_recipe(what);
    const auto type = std::ranges::find(registry_.types(), what, &EnvType::name);
    const bool is_env = type != registry_.types().end();
    if (recipe != nullptr && !(plain && is_env)) return from_yaml(recipe->yaml, what + ".yaml");
    if (is_env) return with_keys(*type, default_algorithm().name);
    if (is_outside_env(what)) return with_keys(registry_.find(what), default_algorithm().name);
    if (path_exists(what)) return from_yaml(read_config_file(what), what);
    std::vector<std::string> names;
    for (const Recipe& each : registry_.recipes()) names.push_back(each.name);
    for (const EnvType& each : registry_.types()) names.push_back(each.name);
    throw Error(ErrorCode::kUsage,
                "no recipe, environment or file '" + what + "'" + did_you_mean(what, names));
  }

  Config from_yaml(const std::string& yaml, const std::string& origin) const {
    const std::string env = env_name_in(yaml, origin), algo = algo_in(yaml, origin);
    if (is_outside_env(env)) give_time({time_in(yaml, origin)});
    Config config = with_keys(find_env(registry_, env, origin), algo);
    if (config.get_text("algo") != algo && has_section(yaml, origin, algo)) {
      throw Error(ErrorCode::kUsage, origin + " has settings of " + algo + ", which " + algo_ +
                                         " does not know: " + other_way(env));
    }
    config.load_yaml_text(yaml, origin);
    return config;
  }

 private:
  // To the algorithm that is wanted, on this environment.
  std::string other_way(const std::string& env) const {
    std::vector<std::string> names;
    for (const Recipe& each : registry_.recipes()) {
      const bool fits = env_name(each) == env && algo_in(each.yaml, each.name + ".yaml") == algo_;
      if (fits) names.push_back("'" + each.name + "'");
    }
    if (!names.empty()) return "train " + join(names, " or ");
    return "no recipe trains '" + env + "' with it; give a YAML file with env, algo: " + algo_ +
           " and its settings";
  }

  // Which environment and which algorithm it is say which keys there are.
  Config with_keys(const EnvType& type, const std::string& algo) const {
    const Algorithm& algorithm = algorithms_.find(algo_.empty() ? algo : algo_);
    return Config(RunConfig::schema(type, algorithm));
  }

  const Registry& registry_;
  const Algorithms& algorithms_;
  const std::string algo_;
};

// A warm start has the network of what it starts from, unless the user says another, which a run
// refuses where the weights do not fit it.
void adopt_network(const PolicyFile& file, Config& config) {
  const Config network = network_config(file);
  for (const Key& key : network.schema().keys()) {
    config.set("net." + key.name, network.input_text(key.name));
  }
}

size_t end_of_first_line(const std::string& text) {
  return std::min(text.find('\n'), text.size() - 1) + 1;
}

}  // namespace

std::string env_name_in(const std::string& yaml, const std::string& origin) {
  const std::string name = look_into(yaml, origin, [](const YAML::Node& root) {
    const YAML::Node flat = child(root, "env.name");
    const YAML::Node env = child(root, "env");
    const YAML::Node found = flat.IsScalar() ? flat : env.IsScalar() ? env : child(env, "name");
    return found.IsScalar() ? found.as<std::string>() : std::string();
  });
  if (name.empty()) throw Error(ErrorCode::kUsage, origin + ": the key env.name is missing");
  return name;
}

std::string env_name(const Recipe& recipe) {
  return env_name_in(recipe.yaml, recipe.name + ".yaml");
}

std::string summary(const Recipe& recipe) {
  const std::string& text = recipe.yaml;
  const std::string line = text.substr(0, end_of_first_line(text) - 1);
  return line.starts_with("# ") ? line.substr(2) : "";
}

std::string settings(const Recipe& recipe) {
  const std::string& text = recipe.yaml;
  return summary(recipe).empty() ? text : text.substr(end_of_first_line(text));
}

void give_time(const std::vector<std::string>& overrides) {
  const std::string seconds = value_among(overrides, kStartTimeout);
  if (seconds.empty()) return;
  Config vec(VecOptions::schema());
  vec.set(kStartTimeout, seconds);
  outside_code().give_time(vec.get_number(kStartTimeout));
}

Config load_run_config(const Registry& registry, const std::string& what, bool plain,
                       const std::vector<std::string>& overrides, const Algorithms& algorithms) {
  Config config = Sources(registry, algorithms, value_among(overrides, "algo")).find(what, plain);
  const std::string init = value_among(overrides, "init");
  if (const std::string& path = init.empty() ? config.get_text("init") : init; !path.empty()) {
    adopt_network(find_policy(path, "last"), config);
  }
  for (const std::string& assignment : overrides) apply_setting(config, assignment);
  return config;
}

Config parse_run_config(const Registry& registry, const std::string& yaml,
                        const std::string& origin, const Algorithms& algorithms) {
  return Sources(registry, algorithms, "").from_yaml(yaml, origin);
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
