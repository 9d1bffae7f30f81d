#include "flotilla/domains/coinrun/coinrun.h"

#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/commands.h"

namespace flotilla {

void add_coinrun_recipes(Registry& registry);  // cmake/recipes.cmake

void register_coinrun(Program& program) {
  program.registry.add(
      env_type<coinrun::CoinRun>("coinrun", "jump and run to a coin, seen as a picture (Procgen)"));
  add_coinrun_recipes(program.registry);
  program.commands["coinrun"] = add_coinrun_commands;
}

}  // namespace flotilla
