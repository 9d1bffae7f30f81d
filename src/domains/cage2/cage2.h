// CAGE Challenge 2: cyber defence of a small network.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_cage2(Program& program);

}  // namespace flotilla
