// How fast a training runs: what `bench scaling`, `bench parallel` and `bench threads` measure.
#pragma once

#include <vector>

#include "flotilla/command/command.h"
#include "flotilla/core/json.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

// Where the wall time of a measurement went, of the learner's thread.
struct Shares {
  double step = 0, infer = 0, wait = 0, learn = 0, other = 0;
  double apply = 0;  // of learning, without gradients
};

struct TrainingSpeed {
  double steps_per_s = 0, update_s = 0, cores = 0;
  double other_cores = 0;  // in use by other programs meanwhile; NaN: not known
  Shares shares;
};

// A line of a table: a training, and how fast it was each time.
struct MeasuredRun {
  RunConfig run;
  RunShape shape = {};
  std::vector<TrainingSpeed> all = {};  // from slow to fast

  const TrainingSpeed& median() const { return all[(all.size() - 1) / 2]; }
  Json all_steps_per_s() const;
};

// What all such benchmarks are told.
struct MeasureArguments {
  int repeats = 3;
  double seconds = 2;  // after one update, about so many
  bool json = false;

  void add_to(Command& command);
};

// In turns, so that what else the machine does meets all of them; says so where that is much.
// Throws Error(kInterrupted).
void measure_all(const std::vector<MeasuredRun*>& runs, const MeasureArguments& arguments);
template <class Line>  // a MeasuredRun with what its table says besides
void measure(std::vector<Line>& lines, const MeasureArguments& arguments) {
  std::vector<MeasuredRun*> runs;
  for (Line& line : lines) runs.push_back(&line);
  measure_all(runs, arguments);
}

}  // namespace flotilla
