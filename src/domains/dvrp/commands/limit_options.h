// Limits of rides for the commands that draw, route or judge instances.
#pragma once

#include "flotilla/command/command.h"
#include "flotilla/core/json.h"
#include "flotilla/domains/dvrp/data/limits.h"

namespace flotilla {

class LimitOptions {
 public:
  void add_to(Command& command);
  // What the instance has, but where the command says otherwise.
  dvrp::Limits over(dvrp::Limits limits) const;
  // Throws Error(kUsage) where one is given beside a standard instance, which has its own.
  void refuse_for_standard() const;

 private:
  static constexpr double kNotGiven = -1;
  double ride_ = kNotGiven, excess_ = kNotGiven;  // minutes; 0: no limit
};

// Minutes, or null where there is no limit.
Json limit_json(double minutes);

}  // namespace flotilla
