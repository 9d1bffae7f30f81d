#include "flotilla/cli/env_speed.h"

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

namespace flotilla {
namespace {

// What is made between two looks at the clock: not longer than this, where envs are fast enough.
struct Looks {
  double every_s;
  int most_steps;
};
constexpr Looks kInStep{.every_s = 0.01, .most_steps = 64};
// Threads meet at each look, and those who are kept from running must catch up until then.
constexpr Looks kAlone{.every_s = 0.1, .most_steps = 1 << 14};

// Calls advance(steps) until the time is over, at first with one step.
template <class Advance>
EnvSpeed measure(RandomRun& run, double seconds, const Looks& looks, const Advance& advance) {
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
    if (took_s * 2 < looks.every_s && steps < looks.most_steps) steps *= 2;
  } while (!deadline.passed());
  return {.steps = (run.steps() - before) * static_cast<uint64_t>(run.vec().num_envs()),
          .wall_s = seconds_since(start),
          .cpu_s = run.vec().cpu_seconds() - cpu_before};
}

}  // namespace

EnvSpeed measure_in_step(RandomRun& run, double seconds) {
  return measure(run, seconds, kInStep, [&](int steps) { run.run(static_cast<uint64_t>(steps)); });
}

EnvSpeed measure_alone(RandomRun& run, double seconds) {
  return measure(run, seconds, kAlone, [&](int steps) { run.play(steps); });
}

}  // namespace flotilla
