// What `train` says behind a run of negotiation: what it saves, a picture of it, and how to have it
// judged.
#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"

namespace flotilla {
namespace {

constexpr const char* kPicture = "day.svg";

// Of the evaluation at the end, if there was one.
std::string saving_line(const Run& run) {
  const Evaluation& evaluation = run.evaluation();
  const std::vector<std::string>& names = run.trainer().env_spec().metrics;
  const auto found = std::ranges::find(names, "saving_pct");
  const auto at = static_cast<size_t>(found - names.begin());
  if (at >= evaluation.metrics.size()) return "";
  return fmt::format("saving {} % on {} it was not trained on, by the oracle's account\n",
                     with_interval(evaluation.metrics[at], evaluation.metrics_ci95[at]),
                     counted(evaluation.episodes, "day"));
}

// The first of the days that `dvrp eval` takes.
std::string picture_of(const Run& run) {
  const RunConfig& config = run.config();
  dvrp::Days days(config.type, config.env_config, {0, 1}, kDvrpDaysSeed, config.threads);
  if (days.memory() != nullptr) days.memory()->set_knowledge(run.trainer().knowledge());
  return dvrp_day_svg(days, run.trainer().policy(), run.path(), {});
}

std::string picture_line(const Run& run) {
  try {
    run.add_file(kPicture, picture_of(run));
    return fmt::format("a day before and after: {}/{}\n", run.path(), kPicture);
  } catch (const Error& error) {  // be it interrupted: the run is whole without it
    return fmt::format("no picture of a day: {}\n", error.what());
  }
}

}  // namespace

std::string dvrp_ending(const Run& run) {
  return fmt::format("\n{}{}judged by a solver: {} dvrp eval {}\n", saving_line(run),
                     picture_line(run), program_name(), run.path());
}

}  // namespace flotilla
