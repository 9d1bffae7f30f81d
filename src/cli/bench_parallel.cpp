// flotilla bench parallel ENV: what more threads, worker processes and actors gain. Every algorithm
// trains on one thread and on several, with equal environments, rows in an update and passes over
// them; each is compared with itself on one thread. Algorithms whose actors run ahead also train
// in turn, all threads acting and then all of them learning: what they would make of these two
// rates is what actors are compared with besides.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "flotilla/cli/commands.h"
#include "flotilla/cli/training_speed.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/report/text_table.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

struct ParallelArguments {
  std::string env;
  std::vector<std::string> overrides;
  int num_envs = 32, workers = 4, threads = 0, passes = 1;
  MeasureArguments measure = {.seconds = 5};
};

// A line of the table.
struct Mode {
  std::string name, algo, backend;
  int threads = 1, workers = 1;
};

struct ModeLine : MeasuredRun {
  ModeLine(Mode mode, const RunConfig& run) : MeasuredRun{run}, mode(std::move(mode)) {}
  Mode mode;
};

std::vector<Mode> modes(const ParallelArguments& arguments) {
  const int threads = arguments.threads == 0 ? cpu_count() : arguments.threads;
  return {{"sequential", "ppo", "serial", 1},
          {"parallel, threads", "ppo", "threads", threads},
          {"parallel, workers", "ppo", "processes", threads, arguments.workers},
          {"one thread", "appo", "actors", 1},
          {"in turn", "appo", "threads", threads},
          {"actors", "appo", "actors", threads},
          {"one thread", "impala", "actors", 1},
          {"in turn", "impala", "threads", threads},
          {"actors", "impala", "actors", threads}};
}

// Environments that step all together, or in other programs, have fewer lines.
bool steps_in(const EnvType& type, const std::string& backend) {
  if (type.batched) return backend == "serial" || backend == "threads";
  return !type.worker_command || backend == "processes";
}

// The settings that the benchmark makes itself.
void refuse_what_lines_differ_in(const Config& config) {
  const std::string algo = config.get_text("algo") + ".";
  const std::pair<std::string, const char*> all[] = {
      {"num_envs", "use --num-envs"},      {"threads", "use --threads"},
      {"workers", "use --workers"},        {algo + "n_epochs", "use --passes"},
      {"algo", "each has its own"},        {"backend", "each has its own"},
      {"groups", "each has its own"},      {algo + "minibatches", "each has minibatches of 1024"},
      {"total_timesteps", "use --seconds"}};
  for (const auto& [key, instead] : all) {
    if (config.schema().find(key) == nullptr || !config.is_overridden(key)) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: bench parallel sets it for every line; {}", key, instead));
  }
}

// The recipe's environment, network and rollout with another algorithm.
Config config_of(const Program& program, const ParallelArguments& arguments, const Config& recipe,
                 const Mode& mode) {
  Config config = load_run_config(program.registry, recipe.get_text("env.name"), true,
                                  {"algo=" + mode.algo}, program.algorithms);
  for (const Key& key : recipe.schema().keys()) {
    const bool common = key.name != "algo" && config.schema().find(key.name) != nullptr &&
                        config.schema().find(key.name)->name == key.name;
    if (!common) continue;
    config.set(key.name, recipe.input_text(key.name));
  }
  const int64_t rows = arguments.num_envs * config.get_integer("n_steps");
  constexpr int64_t kBatch = 1024;
  config.set("num_envs", std::to_string(arguments.num_envs));
  config.set(mode.algo + ".n_epochs", std::to_string(arguments.passes));
  config.set(mode.algo + ".minibatches", std::to_string(std::max<int64_t>(1, rows / kBatch)));
  const std::string batch_size = mode.algo + ".batch_size";
  if (config.schema().find(batch_size) != nullptr) config.set(batch_size, "0");
  config.set("backend", mode.backend);
  config.set("threads", std::to_string(mode.threads));
  config.set("workers", std::to_string(std::min(mode.workers, arguments.num_envs)));
  config.set("groups", "0");
  config.set("total_timesteps", "1000000000000000");  // nothing but the clock ends it
  return config;
}

// Against the same algorithm's first line.
double speedup(const std::vector<ModeLine>& lines, const ModeLine& line) {
  const auto alone = std::ranges::find_if(
      lines, [&](const ModeLine& each) { return each.mode.algo == line.mode.algo; });
  return line.median().steps_per_s / alone->median().steps_per_s;
}

// 1 / (1 / A + 1 / L), of the rates at which all threads act, and learn.
double limit_in_turn(const TrainingSpeed& in_turn) {
  const Shares& shares = in_turn.shares;
  return in_turn.steps_per_s / (shares.step + shares.infer + shares.wait + shares.learn);
}

// Of actors, beside the same threads in turn.
std::optional<double> part_of_limit(const std::vector<ModeLine>& lines, const ModeLine& line) {
  const auto in_turn = std::ranges::find_if(lines, [&](const ModeLine& each) {
    return each.mode.algo == line.mode.algo && each.mode.backend == "threads" &&
           each.mode.threads == line.mode.threads;
  });
  if (line.mode.backend != "actors" || in_turn == lines.end()) return {};
  return line.median().steps_per_s / limit_in_turn(in_turn->median());
}

void print_json(const std::vector<ModeLine>& lines, const ParallelArguments& arguments) {
  Json rows = Json::array();
  for (const ModeLine& line : lines) {
    const std::optional<double> part = part_of_limit(lines, line);
    rows.push_back({{"mode", line.mode.algo + ", " + line.mode.name},
                    {"algo", line.mode.algo},
                    {"backend", line.mode.backend},
                    {"num_envs", arguments.num_envs},
                    {"workers", line.mode.workers},
                    {"threads", line.mode.threads},
                    {"frames_per_s", line.median().steps_per_s},
                    {"all_frames_per_s", line.all_steps_per_s()},
                    {"iteration_s", line.median().update_s},
                    {"cores_used", line.median().cores},
                    {"speedup", speedup(lines, line)},
                    {"part_of_limit", part ? Json(*part) : Json()}});
  }
  const Json whole = {{"env", lines[0].run.type.name},
                      {"n_steps", lines[0].run.n_steps},
                      {"passes", arguments.passes},
                      {"seconds", arguments.measure.seconds},
                      {"repeats", arguments.measure.repeats},
                      {"cpu", cpu_model()},
                      {"cores", cpu_count()},
                      {"rows", rows}};
  display_data(whole.dump() + "\n");
}

void print_table(const std::vector<ModeLine>& lines, const ParallelArguments& arguments) {
  std::vector<std::vector<std::string>> rows = {
      {"algorithm, mode", "threads", "steps/s", "s/iter.", "speed-up", "cores", "learn", "limit"}};
  for (const ModeLine& line : lines) {
    const TrainingSpeed& median = line.median();
    const std::optional<double> part = part_of_limit(lines, line);
    rows.push_back({line.mode.algo + ", " + line.mode.name, std::to_string(line.mode.threads),
                    rate(median.steps_per_s), fmt::format("{:.3f}", median.update_s),
                    fmt::format("{:.2f}", speedup(lines, line)),
                    fmt::format("{:.2f}", median.cores),
                    fmt::format("{:.0f} %", 100 * median.shares.learn),
                    part ? fmt::format("{:.2f}", *part) : ""});
  }
  display(fmt::format("{}, {} envs x {} steps, {} over them, medians of {}, on {} x {}\n",
                      lines[0].run.type.name, arguments.num_envs, lines[0].run.n_steps,
                      counted(arguments.passes, "epoch"), arguments.measure.repeats, cpu_count(),
                      cpu_model()));
  display(text_table(rows, terminal_width(Stream::kOut)));
}

void bench_parallel(const Program& program, const ParallelArguments& arguments) {
  const Config recipe = load_run_config(program.registry, arguments.env, false, arguments.overrides,
                                        program.algorithms);
  refuse_what_lines_differ_in(recipe);
  const EnvType& type = env_of(program.registry, recipe);
  std::vector<ModeLine> lines;
  for (const Mode& mode : modes(arguments)) {
    const bool has_actors = mode.algo != "ppo";
    if (!steps_in(type, has_actors ? "actors" : mode.backend)) continue;
    const Config config = config_of(program, arguments, recipe, mode);
    lines.emplace_back(mode, RunConfig(type, config, program.algorithms));
  }
  measure(lines, arguments.measure);
  if (arguments.measure.json) {
    print_json(lines, arguments);
  } else {
    print_table(lines, arguments);
  }
}

}  // namespace

void add_bench_parallel_command(Command& bench, Program& program) {
  Command& command = bench.add("parallel", "training on one thread, on several, and with actors");
  auto state = std::make_shared<ParallelArguments>();
  command.option("env", state->env, "recipe or environment ('flotilla list' shows all)").required();
  command.option("overrides", state->overrides, "key=value settings, the same for all lines");
  command.option("--num-envs,--n-envs", state->num_envs, "environments (default 32)")
      .range(1, kMaxEnvs);
  command.option("--workers,--num-workers", state->workers, "worker processes (default 4)")
      .range(1, 1024);
  command.option("--threads", state->threads, "threads of the parallel lines; 0: one per CPU")
      .range(0, 1024);
  command.option("--passes", state->passes, "passes over the rows of an update (default 1)")
      .range(1, 1000);
  state->measure.add_to(command);
  command.action([&program, state] { bench_parallel(program, *state); });
}

}  // namespace flotilla
