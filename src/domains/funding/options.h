// Options of `train` and `bench ppo` that the earlier system's users know, where they mean the
// same.
#pragma once

#include <vector>

#include "flotilla/command/program.h"

namespace flotilla::funding {

std::vector<RunOption> known_options();

}  // namespace flotilla::funding
