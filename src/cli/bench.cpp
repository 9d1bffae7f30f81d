// flotilla bench env ENV: how many steps per second an environment makes under random actions.
#include <fmt/format.h>

#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/command/schema_flags.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/random_run.h"

namespace flotilla {
namespace {

constexpr uint64_t kHashedSteps = 1000;
constexpr uint64_t kHashedBatchedSteps = 90;  // each is much work
constexpr uint64_t kStepsPerLook = 64;        // at the clock

Schema bench_schema() {
  Schema schema = VecOptions::schema();
  schema.integer("seed", 0, {0, INT64_MAX}, "seed of environments and actions")
      .number("seconds", 2, {0.001, 86400}, "length of the timed part");
  return schema;
}

struct Measurement {
  uint64_t steps = 0;  // of all envs together
  double wall_s = 0, cpu_s = 0;
  std::string trajectory_sha256;
  uint64_t failures = 0;
};

void stop_if_interrupted() {
  if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
}

std::string hash_first_steps(RandomRun& run, uint64_t steps) {
  TrajectoryHash hash(run.vec().spec(), run.vec().num_envs());
  while (run.steps() < steps) {
    stop_if_interrupted();
    run.step();
    hash.add(run.view());
  }
  return hash.hex();
}

Measurement measure(RandomRun& run, uint64_t hashed_steps, double seconds) {
  Measurement result;
  result.trajectory_sha256 = hash_first_steps(run, hashed_steps);
  // Slow envs look at the clock after every step.
  const uint64_t start = now_ns();
  const double cpu_before = run.vec().cpu_seconds();
  const Deadline deadline = Deadline::after(seconds);
  run.step();
  const double first_step_s = static_cast<double>(now_ns() - start) * 1e-9;
  const uint64_t stride = first_step_s * kStepsPerLook < 0.01 ? kStepsPerLook : 1;
  while (!deadline.passed()) {
    stop_if_interrupted();
    run.run(stride);
  }
  result.wall_s = static_cast<double>(now_ns() - start) * 1e-9;
  result.cpu_s = run.vec().cpu_seconds() - cpu_before;
  result.steps = (run.steps() - hashed_steps) * static_cast<uint64_t>(run.vec().num_envs());
  result.failures = run.vec().take_failures().size();
  return result;
}

void bench_env(const Program& program, const EnvArguments& arguments, const Config& flags,
               bool backend_given, bool json) {
  const EnvType& type = arguments.type(program.registry);
  const Config config = arguments.config(type);
  VecOptions options = VecOptions::from(flags);
  if (type.worker_command && !backend_given) options.backend = Backend::kProcesses;
  const std::string backend =
      options.backend == Backend::kProcesses ? "processes" : flags.get_text("backend");
  Activity measuring("measuring");
  RandomRun run(type, config, options, static_cast<uint64_t>(flags.get_integer("seed")));
  const uint64_t hashed_steps = type.batched ? kHashedBatchedSteps : kHashedSteps;
  const Measurement m = measure(run, hashed_steps, flags.get_number("seconds"));
  const double per_second = static_cast<double>(m.steps) / m.wall_s;
  const int threads = options.backend == Backend::kThreads ? options.threads : 1;
  const int workers = options.backend == Backend::kProcesses ? options.workers : 0;
  if (json) {
    const Json line = {{"env", type.name},
                       {"backend", backend},
                       {"num_envs", options.num_envs},
                       {"threads", threads},
                       {"workers", workers},
                       {"groups", options.groups},
                       {"seed", flags.get_integer("seed")},
                       {"steps", m.steps},
                       {"wall_s", m.wall_s},
                       {"cpu_s", m.cpu_s},
                       {"steps_per_s", per_second},
                       {"failures", m.failures},
                       {"trajectory_sha256", m.trajectory_sha256},
                       {"cpu", cpu_model()},
                       {"cores", cpu_count()}};
    display_data(line.dump() + "\n");
    return;
  }
  display(fmt::format("{} x {}, {} back end, {}, {}, on {} x {}\n", options.num_envs, type.name,
                      backend, counted(threads, "thread"), counted(workers, "worker"), cpu_count(),
                      cpu_model()));
  display(fmt::format("{} steps/s: {} steps in {:.2f} s wall, {:.2f} s CPU\n", rate(per_second),
                      m.steps, m.wall_s, m.cpu_s));
  display(fmt::format("trajectory sha256 {}\n", m.trajectory_sha256));
}

}  // namespace

void add_bench_command(Command& root, Program& program) {
  Command& bench = root.add("bench", "measure speed");
  Command& command = bench.add("env", "environment steps under random actions");
  struct State {
    EnvArguments env;
    SchemaFlags flags{bench_schema()};
    bool json = false;
  };
  auto state = std::make_shared<State>();
  state->env.add_to(command);
  state->flags.add_to(command, {{"num_envs", "--n-envs"},
                                {"workers", "--num-workers"},
                                {"start_method", "--parallel-start-method"}});
  command.flag("--json", state->json, "print one JSON object on stdout");
  command.action([&program, &command, state] {
    bench_env(program, state->env, state->flags.config(), command.given("--backend"), state->json);
  });
  add_bench_ppo_command(bench, program);
  add_bench_parallel_command(bench, program);
  add_bench_scaling_command(bench, program);
}

}  // namespace flotilla
