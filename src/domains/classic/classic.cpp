#include "flotilla/domains/classic/classic.h"

#include "flotilla/domains/classic/cartpole.h"
#include "flotilla/domains/classic/catch.h"
#include "flotilla/domains/classic/corners.h"
#include "flotilla/domains/classic/faulty.h"
#include "flotilla/domains/classic/maze.h"
#include "flotilla/domains/classic/pendulum.h"
#include "flotilla/domains/classic/regions.h"
#include "flotilla/domains/classic/workflows.h"
#include "flotilla/domains/workflow/commands/commands.h"
#include "flotilla/domains/workflow/search.h"

namespace flotilla {

void add_classic_recipes(Registry& registry);  // made by CMake

namespace {

void add_commands(Command& root, Program& program) {
  for (const workflow::Domain& domain : classic::workflows()) {
    workflow::add_search_command(root.add(domain.env, "search over workflows"), program, domain);
  }
  workflow::add_bench_search_command(root.find("bench"), classic::workflows());
}

}  // namespace

void register_classic(Program& program) {
  using namespace classic;
  Registry& registry = program.registry;
  registry.add(env_type<CartPole>("cartpole", "balance a pole on a cart (CartPole-v1)"));
  registry.add(env_type<Pendulum>("pendulum", "swing a pendulum up (Pendulum-v1)"));
  registry.add(env_type<Corners>("corners", "visit four corners in a required order, 11 x 11"));
  registry.add(env_type<Regions>("regions", "visit four regions in a required order, 20 x 20"));
  registry.add(env_type<Maze>("maze", "visit four checkpoints of a maze in a required order"));
  registry.add(env_type<Catch>("catch", "catch a falling ball: an image and a two-part action"));
  registry.add(env_type<Faulty>("faulty", "fail on request, to try failure handling"));
  registry.add_foreign_directory(workflow::search_directory());
  add_classic_recipes(registry);
  program.commands["classic"] = add_commands;
}

}  // namespace flotilla
