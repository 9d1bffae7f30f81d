// flotilla list [NAME]: environments and recipes, or everything about one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "flotilla/cli/commands.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

std::string describe_obs(const ObsSpace& obs) {
  return fmt::format("{} [{}]", obs.type == ObsType::kUint8 ? "uint8" : "float32",
                     fmt::join(obs.shape, ", "));
}

void print_all(const Registry& registry) {
  size_t width = 0;
  for (const EnvType& type : registry.types()) width = std::max(width, type.name.size());
  for (const Recipe& recipe : registry.recipes()) width = std::max(width, recipe.name.size());
  for (const EnvType& type : registry.types()) {
    const EnvSpec spec = type.spec(Config(type.schema));
    fmt::print("{:<{}} {:<18} {:<20} {}\n", type.name, width, describe_obs(spec.obs),
               spec.action.describe(), type.summary);
  }
  fmt::print("\nrecipes, for 'flotilla train NAME':\n");
  for (const Recipe& recipe : registry.recipes()) {
    if (std::ranges::count(registry.types(), env_name(recipe), &EnvType::name) == 0) continue;
    fmt::print("{:<{}} {:<18} {}\n", recipe.name, width, env_name(recipe), summary(recipe));
  }
}

void print_env(const EnvType& type) {
  const EnvSpec spec = type.spec(Config(type.schema));
  fmt::print("{}: {}\n\n", type.name, type.summary);
  fmt::print("observation  {}\naction       {}{}\ntime limit   {}\nmetrics      {}\n\n",
             describe_obs(spec.obs), spec.action.describe(), spec.masked() ? ", masked" : "",
             spec.time_limit > 0 ? fmt::format("{} steps", spec.time_limit) : "none",
             spec.metrics.empty() ? "none" : fmt::format("{}", fmt::join(spec.metrics, ", ")));
  fmt::print("{}", type.schema.help());
}

void print_recipe(const Recipe& recipe) {
  fmt::print("\nrecipe {}: {}\n\n", recipe.name, summary(recipe));
  std::istringstream lines(settings(recipe));
  for (std::string line; std::getline(lines, line);) fmt::print("  {}\n", line);
}

// A name may be that of a recipe, of an environment, or of both.
void print_one(const Registry& registry, const std::string& name, bool keys) {
  const Recipe* recipe = registry.find_recipe(name);
  const EnvType& type = registry.find(recipe != nullptr ? env_name(*recipe) : name);
  if (keys) {
    fmt::print("{}", RunConfig::schema(type).help());
    return;
  }
  print_env(type);
  if (recipe != nullptr) print_recipe(*recipe);
  fmt::print("\n'flotilla list {} --keys' shows every setting of 'flotilla train {}'.\n", name,
             name);
}

}  // namespace

void add_list_command(Command& root, Program& program) {
  Command& command = root.add("list", "show environments and recipes, or everything about one");
  struct State {
    std::string name;
    bool keys = false;
  };
  auto state = std::make_shared<State>();
  const Option name =
      command.option("name", state->name, "environment or recipe to show in detail");
  command.flag("--keys", state->keys, "every key=value that 'flotilla train NAME' takes")
      .needs(name);
  command.action([&program, state] {
    if (state->name.empty()) {
      print_all(program.registry);
    } else {
      print_one(program.registry, state->name, state->keys);
    }
  });
}

}  // namespace flotilla
