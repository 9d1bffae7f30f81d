// Which held-out days of runs a command takes, and what becomes of their shifts: the options of all
// commands that judge, draw or write such days.
#pragma once

#include <string>

#include "flotilla/command/program.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"

namespace flotilla {

struct DayOptions {
  int count = 300;
  uint64_t seed = kDvrpDaysSeed;
  bool trim = false;
  std::string checkpoint = "last";

  // --instances, no fewer than `least`. The default is what `count` is.
  void add_count_to(Command& command, int least);
  void add_checkpoint_to(Command& command);
  // --seed and --trim; the latter is what others may need.
  Option add_to(Command& command);
};

}  // namespace flotilla
