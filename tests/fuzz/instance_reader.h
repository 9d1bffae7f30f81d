// The reader of what is to be routed: instances of dvrp.
#pragma once

#include <memory>

#include "fuzz/readers.h"

namespace flotilla::fuzz {

std::unique_ptr<InputReader> make_instance_reader();

}  // namespace flotilla::fuzz
