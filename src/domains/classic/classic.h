// The classic environments: small, well known, and fast enough to show what the engine costs.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_classic(Program& program);

}  // namespace flotilla
