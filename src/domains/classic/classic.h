// The classic environments: small, well known, and fast enough to show what the engine costs.
#pragma once

#include "flotilla/env/registry.h"

namespace flotilla {

void register_classic(Registry& registry);

}  // namespace flotilla
