// The readers of what a run writes: event files and the state in a checkpoint.
#pragma once

#include <memory>

#include "fuzz/readers.h"

namespace flotilla::fuzz {

std::unique_ptr<InputReader> make_events_reader();
std::unique_ptr<InputReader> make_state_reader();
std::unique_ptr<InputReader> make_actors_reader();  // a state with rollouts in it

}  // namespace flotilla::fuzz
