// flotilla cage2 VERB: what only the CAGE Challenge 2 domain has.
//   replay FILE   repeats recorded games and compares every step
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "flotilla/cli/command.h"
#include "flotilla/core/error.h"
#include "flotilla/domains/cage2/replay.h"

namespace flotilla {
namespace {

struct ReplayArguments {
  std::string file, mode = "outcomes", version = "head";
  bool json = false;
};

void replay(Program& program, const ReplayArguments& arguments) {
  const auto mode =
      arguments.mode == "seed" ? cage2::ReplayMode::kSeed : cage2::ReplayMode::kOutcomes;
  const cage2::ReplayResult result =
      cage2::replay(arguments.file, mode, arguments.version == "legacy");
  if (result.mismatches > 0) program.exit_status = exit_status(ErrorCode::kCheckFailed);
  if (arguments.json) {
    const bool none = result.first_mismatch.empty();
    const nlohmann::ordered_json json = {
        {"episodes", result.episodes},
        {"steps", result.steps},
        {"mismatches", result.mismatches},
        {"first_mismatch",
         none ? nlohmann::ordered_json() : nlohmann::ordered_json(result.first_mismatch)}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} episodes, {} steps, {} mismatches\n", result.episodes, result.steps,
             result.mismatches);
  if (result.mismatches > 0) fmt::print("the first: {}\n", result.first_mismatch);
}

void add_replay(CLI::App& cage2, Program& program) {
  CLI::App* command = cage2.add_subcommand(
      "replay", "repeat recorded games of the reference simulator and compare every step");
  auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("file", arguments->file, "recorded games: JSON lines, plain or gzipped")
      ->required();
  command
      ->add_option(
          "--mode", arguments->mode,
          "outcomes: with the recorded choices of red and green (default); seed: everything "
          "drawn again from each game's seed")
      ->check(CLI::IsMember({"outcomes", "seed"}));
  command->add_option("--version", arguments->version, "of the simulator: head (default) or legacy")
      ->check(CLI::IsMember({"head", "legacy"}));
  command->add_flag("--json", arguments->json, "print one JSON object on stdout");
  command->callback([&program, arguments] { replay(program, *arguments); });
}

}  // namespace

void add_cage2_command(CLI::App& app, Program& program) {
  CLI::App* command = app.add_subcommand("cage2", "CAGE Challenge 2: recorded games");
  command->require_subcommand(1);
  add_replay(*command, program);
}

}  // namespace flotilla
