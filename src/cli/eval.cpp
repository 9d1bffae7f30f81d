// flotilla eval RUN: plays episodes with the policy of a run, or of a policy file.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/train/baselines.h"
#include "flotilla/train/find_policy.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

struct EvalArguments {
  std::string path, checkpoint = "last", levels, device = "cpu";
  int episodes = 100;
  bool deterministic = false, stochastic = false, baselines = false, json = false;
  double start_timeout_s = 60;
  std::optional<int64_t> seed;
  std::vector<std::string> overrides;
};

// What was played on one kind of levels.
struct Played {
  std::string levels;  // "": the environment has no such kinds, or they were not asked for
  Evaluation policy;
  std::optional<Evaluation> random = {};
  std::optional<ConstantPlay> constant = {};
};

// "length=2" and "env.length=2" alike, but not both.
void apply(const std::vector<std::string>& overrides, Config& env_config) {
  constexpr std::string_view kPrefix = "env.";
  std::map<std::string, std::string> given;  // names of keys, as they were written
  for (const std::string& each : overrides) {
    const std::string setting = each.starts_with(kPrefix) ? each.substr(kPrefix.size()) : each;
    env_config.apply_override(setting);
    const std::string name = each.substr(0, each.find('='));
    const Key& key = env_config.schema().at(setting.substr(0, setting.find('=')));
    if (const auto first = given.emplace(key.name, name).first; first->second != name) {
      throw Error(ErrorCode::kUsage, fmt::format("{} and {} are the same key: give one",
                                                 in_quotes(first->second), in_quotes(name)));
    }
  }
}

// The key `levels` of environments that keep some levels from training.
std::vector<std::string> kinds_of_levels(const std::string& wanted, const EnvType& type) {
  if (wanted.empty()) return {""};
  if (type.schema.find("levels") == nullptr) {
    throw Error(ErrorCode::kUsage,
                "--levels: '" + type.name + "' keeps no levels from training (no key env.levels)");
  }
  if (wanted == "both") return {"train", "test"};
  return {wanted};
}

std::string score(const Evaluation& eval) {
  std::string text = "return " + with_interval(eval.mean, eval.ci95);
  if (std::isfinite(eval.ci95)) text += fmt::format(" (95 % interval), std {:.2f}", eval.std);
  return text + fmt::format(", length {:.1f}\n", eval.mean_length);
}

void print(const Played& played, const EnvSpec& env) {
  const Evaluation& eval = played.policy;
  std::string text =
      fmt::format("{} of {}{}: {}", counted(eval.episodes, "episode"), env.name,
                  played.levels.empty() ? "" : ", levels=" + played.levels, score(eval));
  for (size_t i = 0; i < eval.metrics.size(); ++i) {
    text += fmt::format("  {} {}\n", env.metrics[i], number_or_dash("{:.4g}", eval.metrics[i]));
  }
  if (played.random) text += "  random actions: " + score(*played.random);
  if (played.constant) {
    text += fmt::format("  always action {}, the best constant: {}", played.constant->choice,
                        score(played.constant->eval));
  }
  display(text);
}

Json played_json(const Played& played, const EnvSpec& env) {
  Json json = eval_json(played.policy, env);
  if (!played.levels.empty()) json["levels"] = played.levels;
  if (played.random) json["random"] = eval_json(*played.random, env);
  if (played.constant) {
    json["constant"] = eval_json(played.constant->eval, env);
    json["constant"]["action"] = played.constant->choice;
  }
  return json;
}

EvalOptions eval_options(const EvalArguments& arguments, const PolicyFile& file,
                         const EnvType& type) {
  EvalOptions options;
  options.episodes = arguments.episodes;
  options.deterministic =
      arguments.deterministic || (!arguments.stochastic && !file.origin.sampled);
  options.seed =
      eval_seed(arguments.seed ? static_cast<uint64_t>(*arguments.seed) : file.origin.seed);
  options.vec.time_limit = file.origin.time_limit;
  options.vec.start_timeout_s = arguments.start_timeout_s;
  options.vec.workers = cpu_count();  // where the envs are in some
  if (!type.batched) options.vec.backend = Backend::kThreads;
  options.vec.threads = cpu_count();
  return options;
}

void evaluate(const Program& program, const EvalArguments& arguments) {
  const PolicyFile file = find_policy(arguments.path, arguments.checkpoint);
  outside_code().give_time(arguments.start_timeout_s);
  const EnvType& type = env_of(program.registry, file);
  Config env_config = env_config_of(file, type);
  apply(arguments.overrides, env_config);
  const EnvSpec env = type.spec(env_config, file.origin.time_limit);
  const Fit fit = arguments.overrides.empty() ? Fit::kSameEnv : Fit::kSameSpaces;
  const EvalOptions options = eval_options(arguments, file, type);
  const std::unique_ptr<Policy> policy = make_policy(
      file, env,
      {.device = arguments.device, .parts = options.vec.threads, .factory = program.policy_factory},
      fit);

  std::vector<Played> all;
  for (const std::string& levels : kinds_of_levels(arguments.levels, type)) {
    if (!levels.empty()) env_config.set("levels", levels);
    const Activity starting("starting");
    Evaluator evaluator(type, env_config, options, env);
    give_knowledge(file, evaluator.memory());
    Played played{.levels = levels, .policy = evaluator.play(*policy, true)};
    if (arguments.baselines) {
      played.random = evaluator.play(random_player(env, options.seed), true);
      played.constant = best_constant(evaluator, env);
    }
    all.push_back(std::move(played));
  }

  const double gap = all.front().policy.mean - all.back().policy.mean;
  if (!arguments.json) {
    display(fmt::format("{}, {}\n", for_terminal(file.tensors.origin, Lines::kOne),
                        options.deterministic ? "deterministic actions" : "stochastic actions"));
    for (const Played& played : all) print(played, env);
    if (all.size() == 2) display(fmt::format("generalisation gap {:.2f}\n", gap));
    return;
  }
  Json json = played_json(all.back(), env);
  if (all.size() == 2) {
    json["train"] = played_json(all.front(), env);
    json["gap"] = gap;
  }
  json["policy"] = file.tensors.origin;
  json["deterministic"] = options.deterministic;
  display_data(json.dump() + "\n");
}

}  // namespace

void add_eval_command(Command& root, Program& program) {
  Command& command = root.add("eval", "play episodes with a trained policy");
  auto arguments = std::make_shared<EvalArguments>();
  command.option("run", arguments->path, "directory of a run, or a policy file").required();
  command.option("overrides", arguments->overrides,
                 "key=value settings of the environment, where they are to be others");
  command.option("--checkpoint", arguments->checkpoint, "last, best, or a step (default last)");
  command.option("--episodes", arguments->episodes, "how many (default 100)").range(1, 1'000'000);
  const Option deterministic =
      command.flag("--deterministic", arguments->deterministic,
                   "the likeliest action, the mean of a box (default: as in the run)");
  command.flag("--stochastic,--sampled", arguments->stochastic, "actions drawn as in training")
      .excludes(deterministic);
  command
      .option("--seed", arguments->seed,
              "of the episodes (default: the run's, so that its summary is reproduced)")
      .range(int64_t{0}, INT64_MAX);
  command
      .option("--levels", arguments->levels,
              "of an environment that keeps levels from training: train, test, or both and the gap "
              "between them")
      .choices({"train", "test", "both"});
  command.flag("--baselines", arguments->baselines,
               "random actions and the best constant action beside the policy");
  command.option("--device", arguments->device, "where the network runs (default cpu)")
      .choices({"cpu", "cuda"});
  add_python_option(command);
  add_start_timeout_option(command, arguments->start_timeout_s);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
