// How fast a training runs: what `bench scaling` and `bench parallel` measure.
#pragma once

#include "flotilla/train/trainer.h"

namespace flotilla {

// Where the wall time of a measurement went, of the learner's thread.
struct Shares {
  double step = 0, infer = 0, wait = 0, learn = 0, other = 0;
};

struct TrainingSpeed {
  double steps_per_s = 0, update_s = 0, cores = 0;
  Shares shares;
};

// After one update, for about so many seconds. Throws Error(kInterrupted).
TrainingSpeed measure_training(Trainer& trainer, double seconds);

}  // namespace flotilla
