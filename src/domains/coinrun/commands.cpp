// flotilla coinrun VERB: what only CoinRun has.
//   replay         plays given actions on a level
//   show [RUN]     draws a level, or an episode as a film strip
//   verify DIR     compares with recordings of the Procgen library
#include "flotilla/domains/coinrun/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/figure.h"
#include "flotilla/domains/coinrun/level.h"
#include "flotilla/domains/coinrun/replay.h"
#include "flotilla/domains/coinrun/verify.h"
#include "flotilla/env/frame_stack.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

using coinrun::CoinRun;

struct LevelChoice {
  int64_t seed = 0;
  std::string mode = "easy";

  int32_t level_seed() const { return static_cast<int32_t>(seed); }
};

void add_level(Command& command, LevelChoice& level) {
  command.option("--level-seed", level.seed, "of the level (default 0)")
      .range(int64_t{0}, int64_t{coinrun::kLevelSeeds - 1});
  command.option("--mode", level.mode, "easy (default) or hard").choices({"easy", "hard"});
}

struct ReplayArguments {
  LevelChoice level;
  std::string actions;
  bool state = false, json = false;
};

Json to_json(const coinrun::Replay& episode) {
  Json rewards = Json::array(), dones = Json::array();
  for (const auto& [t, value] : episode.rewards) rewards.push_back(Json::Array{t, value});
  if (episode.ended()) dones.push_back(episode.length);
  return {{"length", episode.length},
          {"return", episode.total},
          {"end", episode.end},
          {"goal", Json::Array{episode.goal.first, episode.goal.second}},
          {"rewards", rewards},
          {"dones", dones},
          {"crc_rd", coinrun::crc_text(episode.crc_rd)},
          {"crc_xy", coinrun::crc_text(episode.crc_xy)},
          {"crc_grid", coinrun::crc_text(episode.crc_grid)}};
}

void replay(const ReplayArguments& arguments) {
  const std::vector<int> actions = coinrun::read_actions(arguments.actions);
  Json states = Json::array();
  const auto look = [&states](const coinrun::State& s) {
    states.push_back(Json::Array{s.x, s.y, s.vx, s.vy});
  };
  const LevelChoice& level = arguments.level;
  const coinrun::Replay episode =
      coinrun::replay(level.level_seed(), coinrun::mode_named(level.mode), actions,
                      arguments.state ? coinrun::Look(look) : coinrun::Look());
  Json json = to_json(episode);
  if (arguments.state) json["states"] = states;
  if (arguments.json) return display_data(json.dump() + "\n");
  display(fmt::format("level {}, {}: {}, return {:g}, end: {}\n", level.seed, level.mode,
                      counted(episode.length, "step"), episode.total, episode.end));
  for (const char* name : {"crc_rd", "crc_xy", "crc_grid"}) {
    display(fmt::format("{} {}\n", name, json[name].text()));
  }
  for (const Json& state : states) display(state.dump() + "\n");
}

void add_replay(Command& coinrun) {
  Command& command = coinrun.add("replay", "play given actions on a level");
  auto arguments = std::make_shared<ReplayArguments>();
  add_level(command, arguments->level);
  command
      .option("--actions", arguments->actions,
              "file with one hexadecimal digit, 0 to e, for each action")
      .required();
  command.flag("--state", arguments->state,
               "print x, y, vx and vy of the agent, too, step by step");
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments] { replay(*arguments); });
}

struct ShowArguments {
  std::string path, checkpoint = "last", actions, out = "level.svg";
  LevelChoice level;
  std::optional<std::string> mode;
  int frames = 16, scale = 4;
  bool json = false;
};

using Frames = std::vector<std::vector<uint8_t>>;

// An environment with a state, and the pictures it has shown.
struct Film {
  Film(const Config& config, int32_t level_seed) : env(config) {
    env.begin(state, level_seed);
    look();
  }
  // Whether the episode goes on.
  bool step(int32_t action) {
    Rng unused;
    const Outcome outcome = env.step(state, ActionRow(&action), unused);
    look();
    total += static_cast<double>(outcome.reward);
    return !outcome.terminated && !outcome.truncated;
  }
  void look() {
    frames.emplace_back(coinrun::kViewBytes);
    env.observe(state, ObsRow(frames.back().data(), frames.back().size()));
  }

  CoinRun env;
  coinrun::State state{};
  Frames frames;
  double total = 0;
};

Film film_of_actions(const ShowArguments& arguments) {
  Config config(CoinRun::schema());
  config.set("mode", arguments.mode.value_or("easy"));
  Film film(config, arguments.level.level_seed());
  for (const int action : coinrun::read_actions(arguments.actions)) {
    if (!film.step(action)) break;
  }
  return film;
}

Film film_of_run(const Program& program, const ShowArguments& arguments) {
  const PolicyFile file = find_policy(arguments.path, arguments.checkpoint);
  if (file.origin.env != "coinrun") {
    throw Error(ErrorCode::kUsage,
                file.tensors.origin + ": is a policy of '" + file.origin.env + "', not of coinrun");
  }
  const EnvType& type = env_of(program.registry, file);
  Config config = env_config_of(file, type);
  const auto policy = make_policy(file, type.spec(config, file.origin.time_limit), {});
  if (arguments.mode) config.set("mode", *arguments.mode);
  Film film(config, arguments.level.level_seed());
  FrameWindow window(film.env.spec(), frame_stack_of(config));
  int action = 0;
  do {
    const auto seen = window.look(static_cast<uint32_t>(film.frames.size()) - 1, [&](ObsRow row) {
      std::ranges::copy(film.frames.back(), row.u8().begin());
    });
    const auto* pixels = reinterpret_cast<const uint8_t*>(seen.data());
    action = policy->predict(std::span(pixels, seen.size())).discrete();
  } while (film.step(action));
  return film;
}

void show(const Program& program, const ShowArguments& arguments) {
  const bool png = arguments.out.ends_with(".png");
  if (!png && !arguments.out.ends_with(".svg")) {
    throw Error(ErrorCode::kUsage, "--out: expected a name that ends with .svg or .png, got " +
                                       in_quotes(arguments.out));
  }
  const bool is_film = !arguments.path.empty() || !arguments.actions.empty();
  std::string text = fmt::format("level {}", arguments.level.seed);
  Json json = {{"level_seed", arguments.level.seed}, {"file", arguments.out}};
  coinrun::Picture picture(1, 1);
  if (is_film) {
    const Activity playing("playing");
    const Film film =
        arguments.path.empty() ? film_of_actions(arguments) : film_of_run(program, arguments);
    Frames chosen;
    for (const size_t i :
         coinrun::evenly(film.frames.size(), static_cast<size_t>(arguments.frames))) {
      chosen.push_back(film.frames[i]);
    }
    picture = coinrun::film_strip(chosen);
    text += fmt::format(", {}: return {:g}", counted(film.state.steps, "step"), film.total);
    json["length"] = film.state.steps;
    json["return"] = film.total;
  } else {
    const coinrun::Mode mode = coinrun::mode_named(arguments.mode.value_or("easy"));
    coinrun::State state;
    coinrun::begin_episode(state, arguments.level.level_seed(), mode);
    picture = coinrun::draw_level(state, mode);
  }
  write_file_atomically(arguments.out, png ? coinrun::png_of(picture, arguments.scale)
                                           : coinrun::svg_of(picture, arguments.scale, text));
  if (arguments.json) return display_data(json.dump() + "\n");
  display(arguments.out + ": " + text + "\n");
}

void add_show(Command& coinrun, Program& program) {
  Command& command = coinrun.add("show", "draw a level, or an episode as a film strip");
  auto arguments = std::make_shared<ShowArguments>();
  const Option run = command.option("path", arguments->path,
                                    "directory of a run, or a policy file, that plays the level");
  command.option("--checkpoint", arguments->checkpoint, "last, best, or a step (default last)");
  command.option("--level-seed", arguments->level.seed, "of the level (default 0)")
      .range(int64_t{0}, int64_t{coinrun::kLevelSeeds - 1});
  command.option("--mode", arguments->mode, "easy or hard (default: as in training, or easy)")
      .choices({"easy", "hard"});
  command.option("--actions", arguments->actions, "file with the actions to play instead")
      .excludes(run);
  command.option("--frames", arguments->frames, "most frames of a film strip (default 16)")
      .range(1, 1000);
  command.option("--scale", arguments->scale, "size of a pixel (default 4)").range(1, 16);
  command.option("--out", arguments->out, "the picture, .svg or .png (default level.svg)");
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { show(program, *arguments); });
}

struct VerifyArguments {
  std::string folder;
  bool json = false;
};

void verify(Program& program, const VerifyArguments& arguments) {
  const Activity comparing("comparing");
  const coinrun::Verification result = coinrun::verify(arguments.folder);
  if (result.mismatches > 0) program.exit_status = exit_status(ErrorCode::kCheckFailed);
  if (arguments.json) {
    const bool none = result.first_mismatch.empty();
    const Json json = {{"levels", result.levels},
                       {"episodes", result.episodes},
                       {"traced_steps", result.traced_steps},
                       {"frames", result.frames},
                       {"facts", result.facts},
                       {"mismatches", result.mismatches},
                       {"first_mismatch", none ? Json() : Json(result.first_mismatch)}};
    return display_data(json.dump() + "\n");
  }
  display(
      fmt::format("{} levels, {} episodes, {} traced steps, {} frames: {} facts, {} mismatches\n",
                  grouped(result.levels), grouped(result.episodes), grouped(result.traced_steps),
                  grouped(result.frames), grouped(result.facts), grouped(result.mismatches)));
  if (result.mismatches > 0) display("the first: " + result.first_mismatch + "\n");
}

void add_verify(Command& coinrun, Program& program) {
  Command& command = coinrun.add("verify", "compare with recordings of the Procgen library");
  auto arguments = std::make_shared<VerifyArguments>();
  command.option("folder", arguments->folder, "with recordings").required();
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { verify(program, *arguments); });
}

}  // namespace

void add_coinrun_commands(Command& root, Program& program) {
  Command& command = root.add("coinrun", "CoinRun: given actions, pictures, recordings");
  add_replay(command);
  add_show(command, program);
  add_verify(command, program);
}

}  // namespace flotilla
