// flotilla bench ppo ENV: whole training steps per second: stepping, acting, advantages, all
// epochs and the optimiser. It takes the defaults of every key, not the environment's recipe, so
// that numbers can be compared between environments and over time.
#include <fmt/format.h>

#include <memory>

#include "flotilla/cli/run_arguments.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

void stop_if_interrupted() {
  if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
}

// Multiplications and additions of all layers for one step that is collected and trained on.
double macs_per_step(const RunConfig& run) {
  const double epochs =
      run.ppo.separate ? 0.5 * (run.ppo.value_epochs + run.ppo.policy_epochs) : run.ppo.epochs;
  return run.network.forward_macs() + epochs * run.network.learn_macs();
}

void bench_ppo(const Program& program, const RunArguments& arguments, double seconds, bool json) {
  Config config = arguments.config(program.registry, true);
  // Schedules stand still, and nothing but the clock ends it.
  config.set("steps", "1000000000000000");
  config.set("episodes", "0");
  config.set("duration_s", "0");
  const RunConfig run(env_of(program.registry, config), config);
  Trainer trainer(run);
  trainer.iterate();  // memory is touched, threads are up
  const int64_t before = trainer.progress().steps;
  const double cpu_before = trainer.cpu_seconds();
  const uint64_t start = now_ns();
  const Deadline deadline = Deadline::after(seconds);
  do {
    stop_if_interrupted();
    trainer.iterate();
  } while (!deadline.passed());
  const double wall = static_cast<double>(now_ns() - start) * 1e-9;
  const double cpu = trainer.cpu_seconds() - cpu_before;
  const int64_t steps = trainer.progress().steps - before;
  const double rate = static_cast<double>(steps) / wall;
  const double gflops = rate * 2 * macs_per_step(run) * 1e-9;
  const RunShape shape = trainer.shape();
  if (json) {
    const nlohmann::ordered_json line = {{"env", run.type.name},
                                         {"policy", shape.fused ? "fused" : "torch"},
                                         {"kernel", shape.policy_kernel},
                                         {"backend", shape.backend},
                                         {"num_envs", shape.num_envs},
                                         {"threads", shape.threads},
                                         {"workers", shape.workers},
                                         {"steps", steps},
                                         {"wall_s", wall},
                                         {"cpu_s", cpu},
                                         {"steps_per_s", rate},
                                         {"gflops", gflops},
                                         {"machine", machine_json(shape)}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("{}\n{}", run_header(run, shape), trainer.timing().tree());
  fmt::print(
      "{:.1f} k steps trained per second ({:.1f} GFLOP/s): {} steps in {:.2f} s wall, {:.2f} s "
      "CPU\n",
      rate * 1e-3, gflops, steps, wall, cpu);
}

}  // namespace

void add_bench_ppo_command(CLI::App& bench, Program& program) {
  CLI::App* command = bench.add_subcommand("ppo", "training steps: env, policy, optimiser");
  struct State {
    RunArguments run{RunArguments::For::kBench};
    double seconds = 2;
    bool json = false;
  };
  auto state = std::make_shared<State>();
  state->run.add_to(*command);
  command->add_option("--seconds", state->seconds, "length of the timed part (default 2)")
      ->check(CLI::Range(0.001, 86400.0));
  command->add_flag("--json", state->json, "print one JSON object on stdout");
  command->callback(
      [&program, state] { bench_ppo(program, state->run, state->seconds, state->json); });
}

}  // namespace flotilla
