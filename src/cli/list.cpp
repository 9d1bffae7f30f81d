// flotilla list [NAME]: environments and recipes, or everything about one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/core/terminal.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

std::string describe_obs(const ObsSpace& obs) {
  return fmt::format("{} [{}]", obs.type == ObsType::kUint8 ? "uint8" : "float32",
                     fmt::join(obs.shape, ", "));
}

// Columns with a summary behind them, or below them where a terminal has no room for it.
void print_row(const std::string& columns, const std::string& summary) {
  const std::string line = columns + " " + summary;
  const size_t width = terminal_width(Stream::kOut);
  if (width == 0 || columns_of(line) <= width) return display(line + "\n");
  const std::string words = columns.substr(0, columns.find_last_not_of(' ') + 1);
  display(words + "\n    " + summary + "\n", 4);
}

size_t help_width() {
  constexpr size_t kInFiles = 100;
  const size_t width = terminal_width(Stream::kOut);
  return width == 0 ? kInFiles : width;
}

void print_all(const Registry& registry) {
  size_t width = 0;
  for (const EnvType& type : registry.types()) width = std::max(width, type.name.size());
  for (const Recipe& recipe : registry.recipes()) width = std::max(width, recipe.name.size());
  for (const EnvType& type : registry.types()) {
    const EnvSpec spec = type.spec(Config(type.schema));
    print_row(fmt::format("{:<{}} {:<18} {:<20}", type.name, width, describe_obs(spec.obs),
                          spec.action.describe()),
              type.summary);
  }
  display("\nrecipes, for 'flotilla train NAME':\n");
  for (const Recipe& recipe : registry.recipes()) {
    if (std::ranges::count(registry.types(), env_name(recipe), &EnvType::name) == 0) continue;
    print_row(fmt::format("{:<{}} {:<18}", recipe.name, width, env_name(recipe)), summary(recipe));
  }
}

void print_spec(const EnvType& type) {
  const EnvSpec spec = type.spec(Config(type.schema));
  constexpr size_t kColumn = 13;
  display(
      fmt::format("observation  {}\naction       {}{}\ntime limit   {}\nmetrics      {}\n\n",
                  describe_obs(spec.obs), spec.action.describe(), spec.masked() ? ", masked" : "",
                  spec.time_limit > 0 ? fmt::format("{} steps", spec.time_limit) : "none",
                  spec.metrics.empty() ? "none" : fmt::format("{}", fmt::join(spec.metrics, ", "))),
      kColumn);
}

void print_env(const EnvType& type) {
  display(fmt::format("{}: {}\n\n", type.name, type.summary));
  if (!type.needs_settings) print_spec(type);
  display(type.schema.help(help_width()));
}

void print_recipe(const Recipe& recipe) {
  display(fmt::format("\nrecipe {}: {}\n\n", recipe.name, summary(recipe)));
  std::istringstream lines(settings(recipe));
  for (std::string line; std::getline(lines, line);) display("  " + line + "\n");
}

// With the values of the recipe, where there is one, as what holds if nothing else is said.
Schema keys_of(const Program& program, const std::string& name) {
  const Config config = load_run_config(program.registry, name, false, {}, program.algorithms);
  Schema schema = config.schema();
  for (const Key& key : config.schema().keys()) {
    if (config.is_loaded(key.name)) schema.set_default(key.name, config.input_text(key.name));
  }
  return schema;
}

// A name may be that of a recipe, of an environment, or of both.
void print_one(const Program& program, const std::string& name, bool keys) {
  const Registry& registry = program.registry;
  const Recipe* recipe = registry.find_recipe(name);
  const std::string env = recipe != nullptr ? env_name(*recipe) : name;
  const EnvType& type = find_named(registry, env);
  if (keys) {
    display(keys_of(program, name).help(help_width()));
    return;
  }
  print_env(type);
  if (recipe != nullptr) print_recipe(*recipe);
  display(fmt::format("\n'{0} list {1} --keys' shows every setting of '{0} train {1}'.\n",
                      program_name(), name));
}

}  // namespace

void add_list_command(Command& root, Program& program) {
  Command& command = root.add("list", "show environments and recipes, or everything about one");
  struct State {
    std::string name;
    bool keys = false;
    double start_timeout_s = 60;
  };
  auto state = std::make_shared<State>();
  const Option name =
      command.option("name", state->name, "environment or recipe to show in detail");
  add_python_option(command);
  add_start_timeout_option(command, state->start_timeout_s);
  command.flag("--keys", state->keys, "every key=value that 'flotilla train NAME' takes")
      .needs(name);
  command.action([&program, state] {
    if (state->name.empty()) {
      print_all(program.registry);
    } else {
      outside_code().give_time(state->start_timeout_s);
      print_one(program, state->name, state->keys);
    }
  });
}

}  // namespace flotilla
