// flotilla funding VERB: what only the funding market has.
//   data       makes up a market and writes it (data.cpp)
//   inspect    reads a market, says what is in it and what looks wrong (data.cpp)
//   explain    what a policy sees and can do (explain.cpp)
//   eval       what a trained policy earns on windows it has not seen (eval.cpp)
//   show       one window as it was traded (show.cpp)
#include "flotilla/domains/funding/commands/commands.h"

namespace flotilla {

void add_funding_commands(Command& root, Program& program) {
  Command& command =
      root.add("funding", "funding-rate arbitrage: markets, what policies see and earn");
  add_funding_data(command);
  add_funding_inspect(command);
  add_funding_explain(command);
  add_funding_eval(command, program);
  add_funding_show(command, program);
}

}  // namespace flotilla
