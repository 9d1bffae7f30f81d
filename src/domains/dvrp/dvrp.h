// Dial-a-ride with negotiated time windows.
#pragma once

#include "flotilla/env/registry.h"

namespace flotilla {

void register_dvrp(Registry& registry);

}  // namespace flotilla
