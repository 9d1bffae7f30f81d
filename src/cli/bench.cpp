// flotilla bench env ENV: how many steps per second an environment makes under random actions.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "flotilla/cli/commands.h"
#include "flotilla/cli/env_speed.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/command/schema_flags.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/env/random_run.h"

namespace flotilla {
namespace {

constexpr uint64_t kHashedSteps = 1000;
constexpr uint64_t kHashedBatchedSteps = 90;  // each is much work

Schema bench_schema() {
  Schema schema = VecOptions::schema();
  schema.integer("seed", 0, {0, INT64_MAX}, "seed of environments and actions")
      .number("seconds", 2, {0.001, 86400}, "length of each timed part");
  return schema;
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

void bench_env(const Program& program, const EnvArguments& arguments, const Config& flags,
               bool backend_given, bool json) {
  VecOptions options = VecOptions::from(flags);
  outside_code().give_time(options.start_timeout_s);
  const EnvType& type = arguments.type(program.registry);
  const Config config = arguments.config(type);
  if (type.worker_command && !backend_given) options.backend = Backend::kProcesses;
  const std::string backend =
      options.backend == Backend::kProcesses ? "processes" : flags.get_text("backend");
  Activity measuring("measuring");
  RandomRun run(type, config, options, static_cast<uint64_t>(flags.get_integer("seed")));
  const uint64_t hashed_steps = type.batched ? kHashedBatchedSteps : kHashedSteps;
  const double seconds = flags.get_number("seconds");
  const std::string sha256 = hash_first_steps(run, hashed_steps);
  const EnvSpeed speed = measure_in_step(run, seconds);
  std::optional<double> free_per_second;
  if (run.vec().plays()) free_per_second = measure_alone(run, seconds).per_second();
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
                       {"steps", speed.steps},
                       {"wall_s", speed.wall_s},
                       {"cpu_s", speed.cpu_s},
                       {"steps_per_s", speed.per_second()},
                       {"free_steps_per_s", free_per_second ? Json(*free_per_second) : Json()},
                       {"failures", run.vec().take_failures().size()},
                       {"trajectory_sha256", sha256},
                       {"cpu", cpu_model()},
                       {"cores", cpu_count()}};
    display_data(line.dump() + "\n");
    return;
  }
  display(fmt::format("{} x {}, {} back end, {}, {}, on {} x {}\n", options.num_envs, type.name,
                      backend, counted(threads, "thread"), counted(workers, "worker"), cpu_count(),
                      cpu_model()));
  display(fmt::format("{} steps/s: {} steps in {:.2f} s wall, {:.2f} s CPU\n",
                      rate(speed.per_second()), speed.steps, speed.wall_s, speed.cpu_s));
  if (free_per_second) {
    display(fmt::format("{} steps/s where envs do not meet after each\n", rate(*free_per_second)));
  }
  display(fmt::format("trajectory sha256 {}\n", sha256));
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
  add_bench_threads_command(bench, program);
}

}  // namespace flotilla
