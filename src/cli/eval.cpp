// flotilla eval RUN: plays episodes with the policy of a run, or of a policy file.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/text.h"
#include "flotilla/train/find_policy.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

struct EvalArguments {
  std::string path, checkpoint = "last";
  int episodes = 100;
  bool deterministic = false, sampled = false, json = false;
  std::optional<int64_t> seed;
};

void print(const Evaluation& eval, const EnvSpec& env, const PolicyFile& file, bool deterministic) {
  fmt::print("{}, {}\n{} of {}: return {}", file.tensors.origin,
             deterministic ? "likeliest actions" : "sampled actions",
             counted(eval.episodes, "episode"), env.name, with_interval(eval.mean, eval.ci95));
  if (std::isfinite(eval.ci95)) fmt::print(" (95 % interval), deviation {:.2f}", eval.std);
  fmt::print(", length {:.1f}\n", eval.mean_length);
  for (size_t i = 0; i < eval.metrics.size(); ++i) {
    fmt::print("  {} {:.4g}\n", env.metrics[i], eval.metrics[i]);
  }
}

void evaluate(const Program& program, const EvalArguments& arguments) {
  const PolicyFile file = find_policy(arguments.path, arguments.checkpoint);
  const EnvType& type = env_of(program.registry, file);
  const Config env_config = env_config_of(file, type);
  const EnvSpec env = type.spec(env_config, file.origin.time_limit);
  const std::unique_ptr<Policy> policy = make_policy(file, env, {});
  EvalOptions options;
  options.episodes = arguments.episodes;
  options.deterministic = arguments.deterministic || (!arguments.sampled && !file.origin.sampled);
  options.seed =
      eval_seed(arguments.seed ? static_cast<uint64_t>(*arguments.seed) : file.origin.seed);
  options.vec.time_limit = file.origin.time_limit;
  Evaluator evaluator(type, env_config, options, env);
  give_knowledge(file, evaluator.memory());
  const Evaluation eval = evaluator.play(*policy, true);
  if (!arguments.json) return print(eval, env, file, options.deterministic);
  Json json = eval_json(eval, env);
  json["policy"] = file.tensors.origin;
  json["deterministic"] = options.deterministic;
  fmt::print("{}\n", json.dump());
}

}  // namespace

void add_eval_command(Command& root, Program& program) {
  Command& command = root.add("eval", "play episodes with a trained policy");
  auto arguments = std::make_shared<EvalArguments>();
  command.option("run", arguments->path, "directory of a run, or a policy file").required();
  command.option("--checkpoint", arguments->checkpoint, "last, best, or a step (default last)");
  command.option("--episodes", arguments->episodes, "how many (default 100)").range(1, 1'000'000);
  const Option deterministic =
      command.flag("--deterministic", arguments->deterministic,
                   "the likeliest action, the mean of a box (default: as in the run)");
  command.flag("--sampled", arguments->sampled, "actions drawn as in training")
      .excludes(deterministic);
  command
      .option("--seed", arguments->seed,
              "of the episodes (default: the run's, so that its summary is reproduced)")
      .range(int64_t{0}, INT64_MAX);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
