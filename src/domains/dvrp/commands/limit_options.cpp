#include "flotilla/domains/dvrp/commands/limit_options.h"

#include "flotilla/core/error.h"

namespace flotilla {

void LimitOptions::add_to(Command& command) {
  command.option("--max-ride", ride_, "minutes that nobody is longer on board (0: no limit)")
      .range(0.0, 1440.0);
  command
      .option("--max-excess", excess_,
              "minutes that no ride takes more than the direct way (0: no limit)")
      .range(0.0, 1440.0);
}

dvrp::Limits LimitOptions::over(dvrp::Limits limits) const {
  const auto replace = [](double& limit, double minutes) {
    if (minutes != kNotGiven) limit = dvrp::limit_of(minutes);
  };
  replace(limits.ride, ride_);
  replace(limits.excess, excess_);
  return limits;
}

void LimitOptions::refuse_for_standard() const {
  if (ride_ == kNotGiven && excess_ == kNotGiven) return;
  throw Error(ErrorCode::kUsage,
              "--max-ride and --max-excess: a standard instance has limits of its own");
}

Json limit_json(double minutes) {
  return minutes < dvrp::kUnlimited ? Json(minutes) : Json(nullptr);
}

}  // namespace flotilla
