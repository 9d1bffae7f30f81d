// CoinRun of the Procgen benchmark: run, jump, reach the coin; seen as a picture of 64 x 64.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_coinrun(Program& program);

}  // namespace flotilla
