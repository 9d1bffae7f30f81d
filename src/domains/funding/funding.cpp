#include "flotilla/domains/funding/funding.h"

#include "flotilla/domains/funding/commands/commands.h"
#include "flotilla/domains/funding/funding_env.h"
#include "flotilla/domains/funding/options.h"

namespace flotilla {

void add_funding_recipes(Registry& registry);  // made by CMake

void register_funding(Program& program) {
  program.registry.add(env_type<funding::Funding>(
      "funding", "trade hedged pairs of two venues for the difference of their funding"));
  add_funding_recipes(program.registry);
  program.commands["funding"] = add_funding_commands;
  for (RunOption& option : funding::known_options()) {
    program.run_options.push_back(std::move(option));
  }
}

}  // namespace flotilla
