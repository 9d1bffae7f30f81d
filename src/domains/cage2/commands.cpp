// flotilla cage2 VERB: what only the CAGE Challenge 2 domain has.
//   replay FILE         repeats recorded games and compares every step
//   leaderboard PATH... plays the nine settings of the official leaderboard
//   show PATH           draws one episode
//   search              the best workflow (domains/workflow/commands/search.cpp)
#include "flotilla/domains/cage2/commands.h"

#include <fmt/format.h>

#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/domains/cage2/episode_figure.h"
#include "flotilla/domains/cage2/leaderboard.h"
#include "flotilla/domains/cage2/replay.h"
#include "flotilla/domains/cage2/workflow.h"
#include "flotilla/domains/workflow/commands/commands.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

struct ReplayArguments {
  std::string file, mode = "outcomes", version = "head";
  bool json = false;
};

void replay(Program& program, const ReplayArguments& arguments) {
  const auto mode =
      arguments.mode == "seed" ? cage2::ReplayMode::kSeed : cage2::ReplayMode::kOutcomes;
  const Activity replaying("replaying");
  const cage2::ReplayResult result =
      cage2::replay(arguments.file, mode, arguments.version == "legacy");
  if (result.mismatches > 0) program.exit_status = exit_status(ErrorCode::kCheckFailed);
  if (arguments.json) {
    const bool none = result.first_mismatch.empty();
    const Json json = {{"episodes", result.episodes},
                       {"steps", result.steps},
                       {"mismatches", result.mismatches},
                       {"first_mismatch", none ? Json() : Json(result.first_mismatch)}};
    display_data(json.dump() + "\n");
    return;
  }
  display(fmt::format("{} episodes, {} steps, {} mismatches\n", result.episodes, result.steps,
                      result.mismatches));
  if (result.mismatches > 0) display("the first: " + result.first_mismatch + "\n");
}

void add_replay(Command& cage2, Program& program) {
  Command& command = cage2.add(
      "replay", "repeat recorded games of the reference simulator and compare every step");
  auto arguments = std::make_shared<ReplayArguments>();
  command.option("file", arguments->file, "recorded games: JSON lines, plain or gzipped")
      .required();
  command
      .option("--mode", arguments->mode,
              "outcomes: with the recorded choices of red and green (default); seed: everything "
              "drawn again from each game's seed")
      .choices({"outcomes", "seed"});
  command.option("--version", arguments->version, "of the simulator: head (default) or legacy")
      .choices({"head", "legacy"});
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { replay(program, *arguments); });
}

struct LeaderboardArguments {
  std::vector<std::string> paths;
  std::string checkpoint = "last", version = "legacy";
  cage2::LeaderboardOptions options;
  bool json = false;
};

Json json_of(const cage2::Leaderboard& board, int episodes) {
  Json json = {{"total", board.total.mean}, {"total_se", board.total.error}};
  Json intervals = {{"total", board.total.ci95()}};
  for (size_t i = 0; i < cage2::kSettings; ++i) {
    json[cage2::kSettingNames[i]] = board.settings[i].mean;
    intervals[cage2::kSettingNames[i]] = board.settings[i].ci95();
  }
  json["version"] = board.legacy ? "legacy" : "head";
  json["episodes"] = episodes;
  json["ci95"] = intervals;
  if (board.policies > 1) json["policies"] = board.policies;
  return json;
}

// Of one version: that of the policy, or the mean of several.
cage2::Leaderboard board_of(const std::vector<PolicyFile>& files,
                            const cage2::LeaderboardOptions& options) {
  std::vector<cage2::Leaderboard> boards;
  for (const PolicyFile& file : files) boards.push_back(cage2::play_leaderboard(file, options));
  return boards.size() == 1 ? boards.front() : cage2::mean_of(boards);
}

void leaderboard(LeaderboardArguments arguments) {
  std::vector<PolicyFile> files;
  for (const std::string& path : arguments.paths) {
    files.push_back(find_policy(path, arguments.checkpoint));
  }
  std::vector<cage2::Leaderboard> boards;
  for (const char* version : {"head", "legacy"}) {
    if (arguments.version != version && arguments.version != "both") continue;
    arguments.options.legacy = version == std::string("legacy");
    boards.push_back(board_of(files, arguments.options));
  }
  const int episodes = arguments.options.episodes;
  if (!arguments.json) {
    display(cage2::leaderboard_text(boards, episodes, terminal_width(Stream::kOut)));
    return;
  }
  Json json = json_of(boards.front(), episodes);
  if (boards.size() > 1) json = {{"head", json}, {"legacy", json_of(boards.back(), episodes)}};
  display_data(json.dump() + "\n");
}

void add_leaderboard(Command& cage2) {
  Command& command = cage2.add("leaderboard", "play the nine settings of the official leaderboard");
  auto arguments = std::make_shared<LeaderboardArguments>();
  command
      .option("paths", arguments->paths,
              "directories of runs, or policy files; of several, such as a sweep over seeds, the "
              "mean is shown with its interval over them")
      .required();
  command.option("--checkpoint", arguments->checkpoint, "last, best, or a step (default last)");
  command.option("--episodes", arguments->options.episodes, "of each setting (default 1000)")
      .range(2, 1'000'000);
  command
      .option("--version", arguments->version,
              "of the simulator: legacy (default), which the leaderboard used, head, or both")
      .choices({"legacy", "head", "both"});
  command.option("--seed", arguments->options.seed, "of the episodes (default 0)");
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments] { leaderboard(*arguments); });
}

struct ShowArguments {
  std::string path, checkpoint = "last", out = "episode.svg";
  cage2::EpisodeOptions options;
  bool json = false;
};

void show(const ShowArguments& arguments) {
  require_report_place(arguments.out, ".svg");
  const PolicyFile file = find_policy(arguments.path, arguments.checkpoint);
  const cage2::Episode episode = cage2::play_episode(file, arguments.options);
  write_report(arguments.out, ".svg", cage2::episode_svg(episode));
  if (!arguments.json) {
    display(arguments.out + ": " + cage2::summary(episode) + "\n");
    return;
  }
  const Json json = {{"policy", file.tensors.origin}, {"red", cage2::name_of(episode.red)},
                     {"seed", episode.seed},          {"steps", episode.steps.size()},
                     {"reward", episode.total()},     {"file", arguments.out}};
  display_data(json.dump(-1, Json::StrayBytes::kReplace) + "\n");
}

void add_show(Command& cage2) {
  Command& command = cage2.add("show", "draw one episode: hosts, actions and reward");
  auto arguments = std::make_shared<ShowArguments>();
  command.option("path", arguments->path, "directory of a run, or a policy file").required();
  command.option("--checkpoint", arguments->checkpoint, "last, best, or a step (default last)");
  command.option("--red", arguments->options.red, "the attacker (default: as in training)")
      .choices({"bline", "meander", "sleep", "attackers", "mix"});
  command.option("--seed", arguments->options.seed, "of the episode (default 0)");
  command
      .option("--steps", arguments->options.steps,
              "of the episode (default: the time limit of training)")
      .range(1, cage2::kMostEpisodeSteps);
  command.option("--out", arguments->out, "the picture (default episode.svg)");
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments] { show(*arguments); });
}

}  // namespace

void add_cage2_commands(Command& root, Program& program) {
  Command& command = root.add("cage2", "CAGE Challenge 2: recorded games, leaderboard, pictures");
  add_replay(command, program);
  add_leaderboard(command);
  add_show(command);
  workflow::add_search_command(command, program, cage2::workflow_domain());
}

}  // namespace flotilla
