// What tables of trips have and routing does not need: who the travellers are, how far a trip is
// and how long it takes as they state it.
#pragma once

#include <cstdint>

#include "flotilla/domains/dvrp/data/travellers.h"

namespace flotilla::dvrp {

// Miles only where the positions of cells are known.
// Determinism: draws from a stream of its own, so that trips are the same with and without it.
void add_details(Travellers& travellers, const City& city, uint64_t seed);

}  // namespace flotilla::dvrp
