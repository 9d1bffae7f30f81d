// CAGE Challenge 2: cyber defence of a small network.
#pragma once

#include "flotilla/env/registry.h"

namespace flotilla {

void register_cage2(Registry& registry);

}  // namespace flotilla
