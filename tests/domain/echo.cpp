#include "domain/echo.h"

#include <cstdio>
#include <memory>

#include "docs/new_env/echo.h"
#include "flotilla/core/error.h"

namespace flotilla {

void add_echo_recipes(Registry& registry);  // made by CMake

namespace {

void add_commands(Command& root, Program& program) {
  Command& say = root.add("echo", "what only this domain has").add("say", "say a word");
  auto word = std::make_shared<std::string>("nothing");
  say.option("word", *word, "to be said");
  say.action([&program, word] {
    std::printf("%s\n", word->c_str());
    program.exit_status = *word == "nothing" ? exit_status(ErrorCode::kCheckFailed) : 0;
  });
}

RunOption rounds_option() {
  return {.name = "--rounds",
          .env = "echo",
          .help = "of echo between updates: horizon",
          .range = {{1, 100}},
          .apply = [](Config& config, const std::string& text) { config.set("horizon", text); }};
}

}  // namespace

void register_echo(Program& program) {
  program.registry.add(env_type<Echo>("echo", "repeat the bit that is shown"));
  add_echo_recipes(program.registry);
  program.commands["echo"] = add_commands;
  program.run_options.push_back(rounds_option());
  program.endings.emplace_back(
      [](const Run& run) { return "an echo of " + run.config().type.name + "\n"; });
  program.remarks.emplace_back([](const RunConfig&) { return std::string("an echo"); });
}

}  // namespace flotilla
