// flotilla bench threads ENV: what more threads gain. The environment alone, every env by itself
// where it can, and whole training with the defaults of every key, each beside itself on the first
// number of threads.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/cli/env_speed.h"
#include "flotilla/cli/training_speed.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/report/text_table.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

struct ThreadsArguments {
  std::string env;
  std::vector<std::string> overrides;
  std::vector<int> threads;
  int num_envs = 1024;
  int64_t seed = 0;
  MeasureArguments measure;
};

struct ThreadsLine : MeasuredRun {
  std::vector<double> env_steps_per_s = {};  // from slow to fast
  double median_env() const { return env_steps_per_s[(env_steps_per_s.size() - 1) / 2]; }
};

// 1, 2, 4 and so on, and as many as there are cores.
std::vector<int> usual_threads() {
  std::vector<int> threads;
  for (int count = 1; count < cpu_count(); count *= 2) threads.push_back(count);
  threads.push_back(cpu_count());
  return threads;
}

ThreadsLine line_of(const Program& program, const ThreadsArguments& arguments, const Config& common,
                    int threads) {
  Config config = common;
  config.set("num_envs", std::to_string(arguments.num_envs));
  config.set("threads", std::to_string(threads));
  config.set("backend", threads == 1 ? "serial" : "threads");
  config.set("seed", std::to_string(arguments.seed));
  config.set("total_timesteps", "1000000000000000");  // nothing but the clock ends it
  return {{.run = RunConfig(env_of(program.registry, config), config, program.algorithms)}};
}

double env_speed(const RunConfig& run, double seconds) {
  RandomRun envs(run.type, run.env_config, run.vec, run.env_seed);
  const bool alone = envs.vec().plays();
  return (alone ? measure_alone(envs, seconds) : measure_in_step(envs, seconds)).per_second();
}

void measure_envs(std::vector<ThreadsLine>& lines, const MeasureArguments& arguments) {
  const Activity measuring("measuring");
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    for (ThreadsLine& line : lines) {
      line.env_steps_per_s.push_back(env_speed(line.run, arguments.seconds));
    }
  }
  for (ThreadsLine& line : lines) std::ranges::sort(line.env_steps_per_s);
}

// Of training: what each thread makes, beside what one of the first line makes.
double efficiency(const std::vector<ThreadsLine>& lines, const ThreadsLine& line) {
  const auto each = [](const ThreadsLine& l) { return l.median().steps_per_s / l.run.threads; };
  return each(line) / each(lines[0]);
}

void print_json(const std::vector<ThreadsLine>& lines, const ThreadsArguments& arguments) {
  Json rows = Json::array();
  for (const ThreadsLine& line : lines) {
    const TrainingSpeed& median = line.median();
    rows.push_back({{"threads", line.run.threads},
                    {"env_steps_per_s", line.median_env()},
                    {"all_env_steps_per_s", line.env_steps_per_s},
                    {"train_steps_per_s", median.steps_per_s},
                    {"all_train_steps_per_s", line.all_steps_per_s()},
                    {"efficiency", efficiency(lines, line)},
                    {"cores_used", median.cores},
                    {"step", median.shares.step},
                    {"act", median.shares.infer},
                    {"wait", median.shares.wait},
                    {"learn", median.shares.learn - median.shares.apply},
                    {"apply", median.shares.apply},
                    {"other", median.shares.other}});
  }
  const Json whole = {{"env", lines[0].run.type.name},
                      {"num_envs", arguments.num_envs},
                      {"n_steps", lines[0].run.n_steps},
                      {"seconds", arguments.measure.seconds},
                      {"repeats", arguments.measure.repeats},
                      {"cpu", cpu_model()},
                      {"cores", cpu_count()},
                      {"rows", rows}};
  display_data(whole.dump() + "\n");
}

void print_table(const std::vector<ThreadsLine>& lines, const ThreadsArguments& arguments) {
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  const auto times = [](double ratio) { return fmt::format("{:.2f}", ratio); };
  std::vector<std::vector<std::string>> rows = {{"threads", "env steps/s", "speed-up", "training",
                                                 "speed-up", "each", "step", "act", "wait", "learn",
                                                 "apply"}};
  for (const ThreadsLine& line : lines) {
    const TrainingSpeed& median = line.median();
    const Shares& shares = median.shares;
    rows.push_back({std::to_string(line.run.threads), rate(line.median_env()),
                    times(line.median_env() / lines[0].median_env()), rate(median.steps_per_s),
                    times(median.steps_per_s / lines[0].median().steps_per_s),
                    percent(efficiency(lines, line)), percent(shares.step), percent(shares.infer),
                    percent(shares.wait), percent(shares.learn - shares.apply),
                    percent(shares.apply)});
  }
  display(fmt::format("{}, {} envs x {} steps, medians of {}, on {} x {}\n", lines[0].run.type.name,
                      arguments.num_envs, lines[0].run.n_steps, arguments.measure.repeats,
                      cpu_count(), cpu_model()));
  display(text_table(rows, terminal_width(Stream::kOut)));
}

void bench_threads(const Program& program, ThreadsArguments arguments) {
  if (arguments.threads.empty()) arguments.threads = usual_threads();
  const Config common = load_run_config(program.registry, arguments.env, true, arguments.overrides,
                                        program.algorithms);
  std::vector<ThreadsLine> lines;
  for (const int threads : arguments.threads) {
    lines.push_back(line_of(program, arguments, common, threads));
  }
  measure_envs(lines, arguments.measure);
  measure(lines, arguments.measure);
  if (arguments.measure.json) {
    print_json(lines, arguments);
  } else {
    print_table(lines, arguments);
  }
}

}  // namespace

void add_bench_threads_command(Command& bench, Program& program) {
  Command& command = bench.add("threads", "environment and training steps with more threads");
  auto state = std::make_shared<ThreadsArguments>();
  command.option("env", state->env, "environment ('flotilla list' shows all)").required();
  command.option("overrides", state->overrides, "key=value settings, the same for all lines");
  command
      .option("--threads", state->threads,
              "how many, in turn (default 1, 2, 4 and so on, up to the cores)")
      .range(1, 1024)
      .comma_separated();
  command.option("--num-envs,--n-envs", state->num_envs, "environments (default 1024)")
      .range(1, kMaxEnvs);
  command.option("--seed", state->seed, "of everything that is drawn").range(int64_t{0}, INT64_MAX);
  state->measure.add_to(command);
  command.action([&program, state] { bench_threads(program, *state); });
}

}  // namespace flotilla
