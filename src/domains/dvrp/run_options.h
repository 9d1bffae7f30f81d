// Options of `train` and `bench ppo` that runs of dvrp have besides, among them those of the
// earlier system that mean the same here.
#pragma once

#include <vector>

#include "flotilla/command/program.h"

namespace flotilla::dvrp {

std::vector<RunOption> run_options();

}  // namespace flotilla::dvrp
