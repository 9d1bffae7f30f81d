#include "flotilla/cli/env_speed.h"

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

namespace flotilla {
namespace {

// What is made between two looks at the clock: not longer than this, where envs are fast enough.
constexpr double kLookEvery_s = 0.01;
constexpr int kStepsPerLook = 64, kMostSteps = 1 << 14;

// Calls advance(steps) until the time is over, at first with one step.
template <class Advance>
EnvSpeed measure(RandomRun& run, double seconds, int most_steps, const Advance& advance) {
  const uint64_t before = run.steps();
  const double cpu_before = run.vec().cpu_seconds();
  const uint64_t start = now_ns();
  const Deadline deadline = Deadline::after(seconds);
  int steps = 1;
  do {
    stop_if_interrupted();
    const uint64_t begin = now_ns();
    advance(steps);
    const double took_s = seconds_since(begin);
    if (took_s * 2 < kLookEvery_s && steps < most_steps) steps *= 2;
  } while (!deadline.passed());
  return {.steps = (run.steps() - before) * static_cast<uint64_t>(run.vec().num_envs()),
          .wall_s = seconds_since(start),
          .cpu_s = run.vec().cpu_seconds() - cpu_before};
}

}  // namespace

EnvSpeed measure_in_step(RandomRun& run, double seconds) {
  return measure(run, seconds, kStepsPerLook,
                 [&](int steps) { run.run(static_cast<uint64_t>(steps)); });
}

EnvSpeed measure_alone(RandomRun& run, double seconds) {
  return measure(run, seconds, kMostSteps, [&](int steps) { run.play(steps); });
}

}  // namespace flotilla
