#include "flotilla/domains/dvrp/commands/day_options.h"

#include <fmt/format.h>

namespace flotilla {

void DayOptions::add_count_to(Command& command, int least) {
  command.option("--instances", count, fmt::format("how many days (default {})", count))
      .range(least, 100'000);
}

void DayOptions::add_checkpoint_to(Command& command) {
  command.option("--checkpoint", checkpoint, "of a run: last, best, or a step (default last)");
}

Option DayOptions::add_to(Command& command) {
  command.option("--seed", seed, fmt::format("of these days (default {})", seed));
  return command.flag(
      "--trim", trim,
      "cut shifts to what the routes of the whole day need, before travellers are told");
}

}  // namespace flotilla
