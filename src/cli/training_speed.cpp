#include "flotilla/cli/training_speed.h"

#include <algorithm>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

namespace flotilla {
namespace {

Shares shares_between(const Timing& before, const Timing& after, double wall_s) {
  Shares shares{.step = (after.step_s + after.stage_s - before.step_s - before.stage_s) / wall_s,
                .infer = (after.infer_s - before.infer_s) / wall_s,
                .wait = (after.wait_s - before.wait_s) / wall_s,
                .learn = (after.learn_s() - before.learn_s()) / wall_s};
  shares.other = std::max(0.0, 1 - shares.step - shares.infer - shares.wait - shares.learn);
  return shares;
}

}  // namespace

TrainingSpeed measure_training(Trainer& trainer, double seconds) {
  trainer.iterate();  // memory is touched, threads and workers are up
  const int64_t steps_before = trainer.progress().steps;
  const int64_t updates_before = trainer.progress().updates;
  const double cpu_before = trainer.cpu_seconds();
  const Timing before = trainer.timing();
  const uint64_t start = now_ns();
  const Deadline deadline = Deadline::after(seconds);
  do {
    if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
    trainer.iterate();
  } while (!deadline.passed());
  const double wall_s = static_cast<double>(now_ns() - start) * 1e-9;
  const auto steps = static_cast<double>(trainer.progress().steps - steps_before);
  const auto updates = static_cast<double>(trainer.progress().updates - updates_before);
  return {.steps_per_s = steps / wall_s,
          .update_s = wall_s / updates,
          .cores = (trainer.cpu_seconds() - cpu_before) / wall_s,
          .shares = shares_between(before, trainer.timing(), wall_s)};
}

}  // namespace flotilla
