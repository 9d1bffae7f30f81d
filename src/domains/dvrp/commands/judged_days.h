// Which days are judged, by whom and how: the options of the commands that do.
#pragma once

#include "flotilla/domains/dvrp/commands/day_options.h"
#include "flotilla/domains/dvrp/commands/referee_arguments.h"
#include "flotilla/domains/dvrp/negotiation/judgement.h"

namespace flotilla {

class JudgedDays {
 public:
  DayOptions days;
  RefereeArguments referee;

  // So many days by default.
  explicit JudgedDays(int count) { days.count = count; }
  void add_to(Command& command);
  dvrp::JudgeOptions options() const;

 private:
  bool no_ceiling_ = false;
};

}  // namespace flotilla
