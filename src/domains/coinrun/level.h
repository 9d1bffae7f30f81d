// Levels of CoinRun, exactly those of the Procgen library: a level is a function of its seed and
// the mode.
#pragma once

#include <random>
#include <string>

#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

// The state at the start of an episode. The generator that comes back has the draws of the steps
// next; the state knows as much of them as it needs.
std::mt19937 begin_episode(State& state, int32_t level_seed, Mode mode);

// The world as text: row by row from the bottom, ". M T l L b G" as in the recordings.
std::string grid_text(const Level& level);

}  // namespace flotilla::coinrun
