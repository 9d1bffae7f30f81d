// Dial-a-ride with negotiated time windows.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_dvrp(Program& program);

}  // namespace flotilla
