// flotilla bench scaling ENV: whole training with more and more environments, the settings being
// the same: steps per second, how much faster that is, the cores it uses, and where the time goes.
// Every line has as many rows in an update, so that all of them learn alike per step. Like `bench
// ppo` it takes the defaults of every key.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/cli/training_speed.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/report/text_table.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

struct ScalingArguments {
  std::string env, backend;
  std::vector<std::string> overrides;
  std::vector<int> num_envs = {1, 4, 8, 16};
  int workers = 0, threads = 0;
  int64_t seed = 0;
  MeasureArguments measure;
};

MeasuredRun line_of(const Program& program, const ScalingArguments& arguments, const Config& common,
                    int num_envs) {
  Config config = common;
  const int most = std::ranges::max(arguments.num_envs);
  const int64_t rows = config.get_integer("n_steps") * most;
  config.set("num_envs", std::to_string(num_envs));
  config.set("n_steps", std::to_string(std::max<int64_t>(1, rows / num_envs)));
  if (!arguments.backend.empty()) config.set("backend", arguments.backend);
  config.set("workers", std::to_string(std::min(arguments.workers, num_envs)));
  config.set("threads", std::to_string(arguments.threads));
  config.set("seed", std::to_string(arguments.seed));
  config.set("total_timesteps", "1000000000000000");  // nothing but the clock ends it
  return {.run = RunConfig(env_of(program.registry, config), config, program.algorithms)};
}

void print_json(const std::vector<MeasuredRun>& lines, const ScalingArguments& arguments) {
  Json table = Json::array();
  for (const MeasuredRun& line : lines) {
    const TrainingSpeed& median = line.median();
    table.push_back({{"num_envs", line.shape.num_envs},
                     {"n_steps", line.run.n_steps},
                     {"workers", line.shape.workers},
                     {"threads", line.shape.threads},
                     {"steps_per_s", median.steps_per_s},
                     {"all_steps_per_s", line.all_steps_per_s()},
                     {"speedup", median.steps_per_s / lines[0].median().steps_per_s},
                     {"cores_used", median.cores},
                     {"step", median.shares.step},
                     {"infer", median.shares.infer},
                     {"wait", median.shares.wait},
                     {"learn", median.shares.learn},
                     {"other", median.shares.other}});
  }
  const Json whole = {{"env", lines[0].run.type.name},
                      {"backend", lines[0].shape.backend},
                      {"seconds", arguments.measure.seconds},
                      {"repeats", arguments.measure.repeats},
                      {"cpu", cpu_model()},
                      {"cores", cpu_count()},
                      {"lines", table}};
  display_data(whole.dump() + "\n");
}

void print_table(const std::vector<MeasuredRun>& lines, const ScalingArguments& arguments) {
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  const bool processes = lines[0].shape.backend == "processes";
  std::vector<std::vector<std::string>> rows = {{"envs", processes ? "workers" : "threads",
                                                 "steps/s", "speed-up", "cores", "step", "infer",
                                                 "wait", "learn", "other"}};
  for (const MeasuredRun& line : lines) {
    const TrainingSpeed& median = line.median();
    const Shares& shares = median.shares;
    rows.push_back({std::to_string(line.shape.num_envs),
                    std::to_string(processes ? line.shape.workers : line.shape.threads),
                    rate(median.steps_per_s),
                    fmt::format("{:.2f}", median.steps_per_s / lines[0].median().steps_per_s),
                    fmt::format("{:.2f}", median.cores), percent(shares.step),
                    percent(shares.infer), percent(shares.wait), percent(shares.learn),
                    percent(shares.other)});
  }
  display(fmt::format("{}, {} back end, {} rows an update, medians of {}, on {} x {}\n",
                      lines[0].run.type.name, lines[0].shape.backend,
                      lines[0].run.n_steps * lines[0].run.vec.num_envs, arguments.measure.repeats,
                      cpu_count(), cpu_model()));
  display(text_table(rows, terminal_width(Stream::kOut)));
}

void bench_scaling(const Program& program, const ScalingArguments& arguments) {
  give_time(arguments.overrides);
  find_named(program.registry, arguments.env);  // it may be Python code
  const Config common = load_run_config(program.registry, arguments.env, true, arguments.overrides,
                                        program.algorithms);
  std::vector<MeasuredRun> lines;
  for (const int num_envs : arguments.num_envs) {
    lines.push_back(line_of(program, arguments, common, num_envs));
  }
  measure(lines, arguments.measure);
  if (arguments.measure.json) {
    print_json(lines, arguments);
  } else {
    print_table(lines, arguments);
  }
}

}  // namespace

void add_bench_scaling_command(Command& bench, Program& program) {
  Command& command = bench.add("scaling", "training steps with more and more environments");
  auto state = std::make_shared<ScalingArguments>();
  command
      .option("env", state->env,
              "environment ('flotilla list' shows all), gym:ID or py:MODULE:NAME")
      .required();
  command.option("overrides", state->overrides, "key=value settings, the same for all lines");
  command.option("--num-envs,--n-envs", state->num_envs, "how many, in turn (default 1,4,8,16)")
      .range(1, kMaxEnvs)
      .comma_separated();
  command
      .option("--backend", state->backend,
              "where environments are stepped (default: threads; processes for Python)")
      .choices({"serial", "threads", "processes"});
  command
      .option("--workers,--num-workers", state->workers,
              "workers of the processes back end; 0: one per CPU")
      .range(0, 1024);
  command.option("--threads", state->threads, "threads of the learner; 0: one per CPU")
      .range(0, 1024);
  command.option("--seed", state->seed, "of everything that is drawn").range(int64_t{0}, INT64_MAX);
  add_python_option(command);
  state->measure.add_to(command);
  command.action([&program, state] { bench_scaling(program, *state); });
}

}  // namespace flotilla
