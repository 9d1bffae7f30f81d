// flotilla verify RECIPE: trains a recipe with many seeds and says what they reach.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/baselines.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/sweep.h"

namespace flotilla {
namespace {

struct VerifyArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  SweepOptions sweep;
  std::optional<double> at_least;
  bool json = false;
};

struct Report {
  std::vector<SeedResult> results;
  std::optional<double> at_least;
  double wall_s = 0;
  // Of the simplest players, on the episodes of the first seed's evaluation.
  double random = 0;
  std::optional<ConstantPlay> constant = {};

  bool failed(const SeedResult& result) const {
    return !result.error.empty() || (at_least && !(result.score >= *at_least));
  }
  int64_t failures() const {
    return std::ranges::count_if(results, [this](const SeedResult& r) { return failed(r); });
  }
  // Over the trainings that came to an end.
  double mean() const { return mean_of(&SeedResult::score); }
  double mean_wall_s() const { return mean_of(&SeedResult::wall_s); }
  const SeedResult& lowest() const {
    return *std::ranges::min_element(results, {}, [](const SeedResult& result) {
      return std::pair(result.error.empty(), result.score);
    });
  }

 private:
  double mean_of(double SeedResult::*value) const {
    double sum = 0, count = 0;
    for (const SeedResult& result : results) {
      if (!result.error.empty()) continue;
      sum += result.*value;
      count += 1;
    }
    return sum / count;
  }
};

std::string outcome(const SeedResult& result) {
  return result.error.empty() ? fmt::format("{:.2f}", result.score) : result.error;
}

void print_text(const VerifyArguments& arguments, const Report& report) {
  const size_t count = report.results.size();
  const uint64_t first = arguments.sweep.first_seed;
  const std::string seeds = fmt::format("seeds {} to {}", first, first + count - 1);
  std::string text;
  if (report.at_least) {
    text = fmt::format("{}: {} of {} at {} or more ({})\n", arguments.recipe,
                       count - report.failures(), count, *report.at_least, seeds);
  } else {
    text = fmt::format("{}: {} of {} trained ({})\n", arguments.recipe, count - report.failures(),
                       count, seeds);
  }
  text += fmt::format("mean {:.2f}, lowest {} (seed {})\n", report.mean(), outcome(report.lowest()),
                      report.lowest().seed);
  text += fmt::format("random actions {:.2f}", report.random);
  if (report.constant) {
    text += fmt::format(", the best constant action ({}) {:.2f}", report.constant->choice,
                        report.constant->eval.mean);
  }
  text += fmt::format("\n{:.2f} s each on one thread, {} at once, {:.1f} s in all; {}\n",
                      report.mean_wall_s(), arguments.sweep.at_once, report.wall_s,
                      report.results.front().kernel);
  for (const SeedResult& result : report.results) {
    if (report.failed(result)) text += fmt::format("  seed {}: {}\n", result.seed, outcome(result));
  }
  display(text);
}

void print_json(const VerifyArguments& arguments, const Report& report) {
  Json scores = Json::array(), failures = Json::array();
  for (const SeedResult& result : report.results) {
    Json json = {{"seed", result.seed},
                 {"score", result.error.empty() ? Json(result.score) : Json()},
                 {"steps", result.steps},
                 {"wall_s", result.wall_s}};
    for (const auto& [name, mean] : result.metrics) json["metrics"][name] = mean;
    if (!result.error.empty()) json["error"] = result.error;
    if (report.failed(result)) failures.push_back(result.seed);
    scores.push_back(std::move(json));
  }
  const auto& any = report.results.front();
  const Json json = {
      {"recipe", arguments.recipe},
      {"first_seed", arguments.sweep.first_seed},
      {"seeds", report.results.size()},
      {"at_least", report.at_least ? Json(*report.at_least) : Json()},
      {"passed", report.results.size() - report.failures()},
      {"failures", failures},
      {"mean", report.mean()},
      {"lowest", report.lowest().error.empty() ? Json(report.lowest().score) : Json()},
      {"random", report.random},
      {"constant", report.constant ? Json(report.constant->eval.mean) : Json()},
      {"mean_wall_s", report.mean_wall_s()},
      {"wall_s", report.wall_s},
      {"at_once", arguments.sweep.at_once},
      {"kernel", any.kernel},
      {"cpu", cpu_model()},
      {"version", kVersionLine},
      {"results", scores}};
  display_data(json.dump() + "\n");
}

void play_baselines(const EnvType& type, const Config& config, const Algorithms& algorithms,
                    uint64_t seed, Report& report) {
  Config first = config;
  first.set("seed", std::to_string(seed));
  const RunConfig run(type, first, algorithms);
  Evaluator evaluator(type, run.eval_config, run.eval, run.spec);
  report.random = evaluator.play(random_player(run.spec, run.eval.seed), true).mean;
  report.constant = best_constant(evaluator, run.spec);
}

int verify(const Program& program, VerifyArguments& arguments) {
  arguments.sweep.policy_factory = program.policy_factory;
  arguments.sweep.at_once = std::min(arguments.sweep.at_once, arguments.sweep.seeds);
  python_settings().named.insert(arguments.recipe);
  give_time(arguments.overrides);
  const Config config = load_run_config(program.registry, arguments.recipe, false,
                                        arguments.overrides, program.algorithms);
  Report report{.results = {}, .at_least = arguments.at_least};
  const uint64_t start = now_ns();
  int64_t done = 0;
  {
    Activity training("training", "seed", arguments.sweep.seeds);
    report.results = sweep(env_of(program.registry, config), config, program.algorithms,
                           arguments.sweep, [&](const SeedResult&) { training.done(++done); });
  }
  report.wall_s = seconds_since(start);
  play_baselines(env_of(program.registry, config), config, program.algorithms,
                 arguments.sweep.first_seed, report);
  if (arguments.json) {
    print_json(arguments, report);
  } else {
    print_text(arguments, report);
  }
  return report.failures() == 0 ? 0 : 1;
}

}  // namespace

void add_verify_command(Command& root, Program& program) {
  Command& command = root.add("verify", "train a recipe with many seeds: what do they reach?");
  auto arguments = std::make_shared<VerifyArguments>();
  command.option("recipe", arguments->recipe, "recipe, environment or YAML file").required();
  command.option("overrides", arguments->overrides,
                 "key=value settings ('flotilla list NAME --keys' shows all)");
  command.option("--seeds", arguments->sweep.seeds, "how many (default 10)").range(1, 1'000'000);
  command.option("--first-seed", arguments->sweep.first_seed, "the others follow it (default 0)");
  command.option("--at-least", arguments->at_least,
                 "score every seed must reach, else the status is 1 (default: none)");
  command
      .option("--at-once", arguments->sweep.at_once,
              "trainings beside each other, with one thread each (default: one per CPU)")
      .range(1, 1024);
  command.option("--out", arguments->sweep.directory,
                 "folder to keep the runs in (default: they are not kept)");
  add_python_option(command);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, arguments] { program.exit_status = verify(program, *arguments); });
}

}  // namespace flotilla
