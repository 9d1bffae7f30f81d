// flotilla eval RUN: plays episodes with the policy of a run, or of a policy file.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/train/find_policy.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

struct EvalArguments {
  std::string path, checkpoint = "last";
  int episodes = 100;
  bool deterministic = false, stochastic = false, json = false;
  std::optional<int64_t> seed;
  std::vector<std::string> overrides;
};

// "length=2" and "env.length=2" alike.
void apply(const std::vector<std::string>& overrides, Config& env_config) {
  constexpr std::string_view kPrefix = "env.";
  for (const std::string& each : overrides) {
    env_config.apply_override(each.starts_with(kPrefix) ? each.substr(kPrefix.size()) : each);
  }
}

void print(const Evaluation& eval, const EnvSpec& env, const PolicyFile& file, bool deterministic) {
  std::string text =
      fmt::format("{}, {}\n{} of {}: return {}", for_terminal(file.tensors.origin, Lines::kOne),
                  deterministic ? "deterministic actions" : "stochastic actions",
                  counted(eval.episodes, "episode"), env.name, with_interval(eval.mean, eval.ci95));
  if (std::isfinite(eval.ci95)) {
    text += fmt::format(" (95 % interval), std {:.2f}", eval.std);
  }
  text += fmt::format(", length {:.1f}\n", eval.mean_length);
  for (size_t i = 0; i < eval.metrics.size(); ++i) {
    text += fmt::format("  {} {}\n", env.metrics[i], number_or_dash("{:.4g}", eval.metrics[i]));
  }
  display(text);
}

void evaluate(const Program& program, const EvalArguments& arguments) {
  const PolicyFile file = find_policy(arguments.path, arguments.checkpoint);
  const EnvType& type = env_of(program.registry, file);
  Config env_config = env_config_of(file, type);
  apply(arguments.overrides, env_config);
  const EnvSpec env = type.spec(env_config, file.origin.time_limit);
  const Fit fit = arguments.overrides.empty() ? Fit::kSameEnv : Fit::kSameSpaces;
  const std::unique_ptr<Policy> policy =
      make_policy(file, env, {.factory = program.policy_factory}, fit);
  EvalOptions options;
  options.episodes = arguments.episodes;
  options.deterministic =
      arguments.deterministic || (!arguments.stochastic && !file.origin.sampled);
  options.seed =
      eval_seed(arguments.seed ? static_cast<uint64_t>(*arguments.seed) : file.origin.seed);
  options.vec.time_limit = file.origin.time_limit;
  options.vec.workers = cpu_count();  // where the envs are in some
  const Activity starting("starting");
  Evaluator evaluator(type, env_config, options, env);
  give_knowledge(file, evaluator.memory());
  const Evaluation eval = evaluator.play(*policy, true);
  if (!arguments.json) return print(eval, env, file, options.deterministic);
  Json json = eval_json(eval, env);
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
  add_python_option(command);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
