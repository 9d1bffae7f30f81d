#include "flotilla/cli/training_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
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

TrainingSpeed measure_training(Trainer& trainer, double seconds) {
  trainer.iterate();  // memory is touched, threads and workers are up
  const int64_t steps_before = trainer.progress().steps;
  const int64_t updates_before = trainer.progress().updates;
  const double cpu_before = trainer.cpu_seconds(), machine_before = machine_cpu_seconds();
  const Timing before = trainer.timing();
  const uint64_t start = now_ns();
  const Deadline deadline = Deadline::after(seconds);
  double apply_s = 0;
  do {
    stop_if_interrupted();
    trainer.iterate();
    apply_s += trainer.progress().update.apply_s;
  } while (!deadline.passed());
  const double wall_s = seconds_since(start);
  const auto steps = static_cast<double>(trainer.progress().steps - steps_before);
  const auto updates = static_cast<double>(trainer.progress().updates - updates_before);
  const double own_s = trainer.cpu_seconds() - cpu_before;
  TrainingSpeed speed{.steps_per_s = steps / wall_s,
                      .update_s = wall_s / updates,
                      .cores = own_s / wall_s,
                      .other_cores = (machine_cpu_seconds() - machine_before - own_s) / wall_s,
                      .shares = shares_between(before, trainer.timing(), wall_s)};
  speed.shares.apply = apply_s / wall_s;
  return speed;
}

void warn_of_others(const std::vector<MeasuredRun*>& runs, const MeasureArguments& arguments) {
  constexpr double kMuch = 0.2, kLongEnough_s = 0.5;  // the system counts in hundredths
  double most = 0;
  for (const MeasuredRun* run : runs) {
    for (const TrainingSpeed& speed : run->all) {
      if (std::isfinite(speed.other_cores)) most = std::max(most, speed.other_cores);
    }
  }
  if (most < kMuch || arguments.seconds < kLongEnough_s) return;
  log::warn(
      fmt::format("other programs used up to {:.1f} of the {} cores meanwhile: speeds may be "
                  "too low and speed-ups wrong",
                  most, cpu_count()));
}

}  // namespace

Json MeasuredRun::all_steps_per_s() const {
  Json list = Json::array();
  for (const TrainingSpeed& each : all) list.push_back(each.steps_per_s);
  return list;
}

void MeasureArguments::add_to(Command& command) {
  command.option("--repeats", repeats, "measurements of each line (default 3)").range(1, 1000);
  command.option("--seconds", seconds, fmt::format("length of a measurement (default {})", seconds))
      .range(0.001, 86400.0);
  command.flag("--json", json, "print one JSON object on stdout");
}

void measure_all(const std::vector<MeasuredRun*>& runs, const MeasureArguments& arguments) {
  {
    const Activity measuring("measuring");
    for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
      for (MeasuredRun* run : runs) {
        Trainer trainer(run->run);
        run->all.push_back(measure_training(trainer, arguments.seconds));
        run->shape = trainer.shape();
      }
    }
  }
  for (MeasuredRun* run : runs) std::ranges::sort(run->all, {}, &TrainingSpeed::steps_per_s);
  warn_of_others(runs, arguments);
}

}  // namespace flotilla
