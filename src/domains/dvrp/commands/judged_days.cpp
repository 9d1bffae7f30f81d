#include "flotilla/domains/dvrp/commands/judged_days.h"

namespace flotilla {

void JudgedDays::add_to(Command& command) {
  constexpr int kLeast = 2;  // for an interval
  referee.add_to(command);
  days.add_count_to(command, kLeast);
  days.add_to(command);
  command.flag("--no-ceiling", no_ceiling_,
               "leave out S*, the search over allowed shifts of whole days");
}

dvrp::JudgeOptions JudgedDays::options() const {
  return {.seed = days.seed, .ceiling = !no_ceiling_, .trim = days.trim, .search = {}};
}

}  // namespace flotilla
