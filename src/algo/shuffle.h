// The order in which a learner goes over what it learns from.
#pragma once

#include <cstdint>
#include <vector>

namespace flotilla {

// A function of (seed, stream) and of how many there are.
void shuffle(std::vector<int32_t>& items, uint64_t seed, uint64_t stream);

}  // namespace flotilla
