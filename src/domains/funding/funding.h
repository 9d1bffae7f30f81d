// Funding-rate arbitrage: hedged pairs of perpetual futures on two venues, held for the difference
// of what these pay.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_funding(Program& program);

}  // namespace flotilla
