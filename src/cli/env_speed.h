// How fast environments step under random actions: what `bench env` and `bench threads` measure.
#pragma once

#include <cstdint>

#include "flotilla/env/random_run.h"

namespace flotilla {

struct EnvSpeed {
  uint64_t steps = 0;  // of all envs together
  double wall_s = 0, cpu_s = 0;

  double per_second() const { return static_cast<double>(steps) / wall_s; }
};

// For about so many seconds: all envs step together, or each makes its steps alone.
// Throw Error(kInterrupted). The second REQUIRES: run.vec().plays().
EnvSpeed measure_in_step(RandomRun& run, double seconds);
EnvSpeed measure_alone(RandomRun& run, double seconds);

}  // namespace flotilla
