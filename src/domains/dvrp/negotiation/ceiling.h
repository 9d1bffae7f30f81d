// How much a negotiation could save at most: the shifts that an operator would choose who knows all
// requests of the day beforehand, and what every traveller accepts. Found by search, so it is a
// saving that can be had, and near the largest one; nobody who decides request by request should
// expect as much.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/domains/dvrp/routing/solver.h"

namespace flotilla::dvrp {

struct CeilingOptions {
  // Several short searches find more than a long one, and the worst of them matters less.
  int starts = 6;
  int iterations = 2000;  // of each
  uint64_t seed = 0;
  Granting granting = Granting::kMove;
};

struct Ceiling {
  std::vector<uint8_t> actions;  // by request: one that its traveller accepts, or kNoShift
  Instance granted;              // the requests with these shifts
  Solution solution;             // of it; infinite where a request cannot be served in any version
  Solution plain;                // of the requests as they were asked, with the same effort
};

// Never worse than without shifts, and none is larger than the routes need. REQUIRES: requests of
// these travellers, not shifted yet. Determinism: the same arguments give the same shifts and
// routes, unless an interrupt ends the search early.
Ceiling find_ceiling(const Instance& asked, const Travellers& travellers,
                     const CeilingOptions& options);

}  // namespace flotilla::dvrp
