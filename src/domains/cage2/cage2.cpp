#include "flotilla/domains/cage2/cage2.h"

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/commands.h"
#include "flotilla/domains/workflow/search.h"

namespace flotilla {

void add_cage2_recipes(Registry& registry);  // made by CMake

void register_cage2(Program& program) {
  program.registry.add(
      env_type<cage2::Cage2>("cage2", "defend a network of 13 hosts against an attacker"));
  program.registry.add_foreign_directory(workflow::search_directory());
  add_cage2_recipes(program.registry);
  program.commands["cage2"] = add_cage2_commands;
}

}  // namespace flotilla
