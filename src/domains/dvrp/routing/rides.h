// How long travellers are on board: what a shared vehicle costs them.
#pragma once

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

// Minutes of all requests together.
struct Rides {
  double on_board = 0;  // from the pickup to the drop-off, waiting included
  double direct = 0;    // the ways themselves, without a stop between
  int requests = 0;
  double longest_excess = 0;  // of one request
};

// Of vehicles that serve each stop as soon as they are there and its window is open; under limits,
// as soon as these allow. REQUIRES: routes without fault.
Rides rides_of(const Instance& instance, const Routes& routes);

}  // namespace flotilla::dvrp
