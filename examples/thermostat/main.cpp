// Trains the thermostat. With arguments it is the whole command line: `thermostat list`.
#include "thermostat.h"

#include <cstdio>

#include "flotilla/flotilla.h"

int main(int argc, char** argv) try {
  flotilla::Registry registry;
  registry.add(flotilla::env_type<Thermostat>("thermostat", "keep a room warm"));
  // Worker processes are this program with arguments, so this comes first.
  if (argc > 1) return flotilla::run_program(argc, argv, std::move(registry));

  const flotilla::Config config = flotilla::load_run_config(
      registry, "thermostat", false,
      {"total_timesteps=400000", "ppo.learning_rate=0.002", "ppo.gamma=0.95"});
  flotilla::Run run(flotilla::RunConfig(registry.find("thermostat"), config));
  // Called after every update; false would stop the run.
  run.train([](const flotilla::Progress& progress) { return progress.wall_s < 600; });
  run.finish();
  std::printf("off by %.2f degrees\n", -run.evaluation().mean / run.evaluation().mean_length);
  const flotilla::Checkpoints checkpoints(run.path());
  std::printf("policy %s\n", checkpoints.model_path(checkpoints.steps().back()).c_str());
} catch (const flotilla::Error& error) {
  std::fprintf(stderr, "thermostat: %s\n", error.what());
  return flotilla::exit_status(error);
}
