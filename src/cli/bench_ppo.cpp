// flotilla bench ppo ENV: whole training steps per second: stepping, acting, advantages, all
// epochs and the optimiser. It takes the defaults of every key, not the environment's recipe, so
// that numbers can be compared between environments and over time.
#include <fmt/format.h>

#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/cli/processes.h"
#include "flotilla/command/run_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/train/follower.h"
#include "flotilla/train/orders.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

// Multiplications and additions of all layers for one step that is collected and trained on.
double macs_per_step(const RunConfig& run, const Learner& learner) {
  return run.network.forward_macs() + learner.passes() * run.network.learn_macs();
}

Config endless_config(const Program& program, const RunArguments& arguments) {
  Config config = arguments.config(program, true);
  // Schedules stand still, and nothing but the clock ends it.
  config.set("total_timesteps", "1000000000000000");
  config.set("episodes", "0");
  config.set("duration_s", "0");
  return config;
}

void measure(const RunConfig& run, double seconds, bool json) {
  const Activity measuring("measuring");
  Trainer trainer(run);
  order_start(run, trainer.implementation());
  trainer.iterate();  // memory is touched, threads are up
  const int64_t before = trainer.progress().steps;
  const double cpu_before = trainer.cpu_seconds();
  const uint64_t start = now_ns();
  const Deadline deadline = Deadline::after(seconds);
  do {
    stop_if_interrupted();
    trainer.iterate();
  } while (!deadline.passed());
  const double wall = seconds_since(start);
  give_order(*run.cluster.collective, {.order = Order::kEnd});
  const double cpu = trainer.cpu_seconds() - cpu_before;
  const int64_t steps = trainer.progress().steps - before;
  const double per_second = static_cast<double>(steps) / wall;
  const double gflops = per_second * 2 * macs_per_step(run, trainer.learner()) * 1e-9;
  const RunShape shape = trainer.shape();
  if (json) {
    Json line = {{"env", run.type.name},
                 {"policy", shape.policy.kind},
                 {"kernel", shape.policy.name},
                 {"backend", shape.backend},
                 {"num_envs", shape.num_envs},
                 {"threads", shape.threads},
                 {"learner_threads", shape.learner_threads},
                 {"workers", shape.workers},
                 {"steps", steps},
                 {"wall_s", wall},
                 {"cpu_s", cpu},
                 {"steps_per_s", per_second},
                 {"gflops", gflops},
                 {"machine", machine_json(shape)}};
    const int processes = run.cluster.collective->size();
    if (processes > 1) line["processes"] = processes;
    display_data(line.dump() + "\n");
    return;
  }
  display(fmt::format("{}\n{}", run_header(run, shape), trainer.timing().tree()));
  display(fmt::format(
      "{} steps trained per second ({:.1f} GFLOP/s): {} steps in {:.2f} s wall, {:.2f} s CPU\n",
      rate(per_second), gflops, steps, wall, cpu));
}

// By all processes that a launcher started; the first of them measures.
void bench_ppo(const Program& program, const RunArguments& arguments, double seconds, bool json) {
  const Config config = endless_config(program, arguments);
  RunConfig run(env_of(program.registry, config), config, program.algorithms);
  const Processes processes({.port = run.cluster.port, .deadline_s = run.cluster.deadline_s});
  run.cluster.collective = &processes.all();
  processes.run([&] {
    if (processes.all().rank() == 0) return measure(run, seconds, json);
    Follower(program.registry, program.algorithms, processes.all()).follow();
  });
}

}  // namespace

void add_bench_ppo_command(Command& bench, Program& program) {
  Command& command = bench.add("ppo", "training steps: env, policy, optimiser");
  struct State {
    explicit State(const Program& program) : run(RunArguments::For::kBench, program) {}
    RunArguments run;
    double seconds = 2;
    bool json = false;
  };
  auto state = std::make_shared<State>(program);
  state->run.add_to(command, program);
  command.option("--seconds", state->seconds, "length of the timed part (default 2)")
      .range(0.001, 86400.0);
  command.flag("--json", state->json, "print one JSON object on stdout");
  command.action(
      [&program, state] { bench_ppo(program, state->run, state->seconds, state->json); });
}

}  // namespace flotilla
