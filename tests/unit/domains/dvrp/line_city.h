// A city in which times can be worked out by hand.
#pragma once

#include "flotilla/domains/dvrp/data/instance.h"

namespace flotilla::dvrp {

// Ten minutes from the depot to a, from a to b, from b to c; twice that from a to c.
inline City line_city() {
  return City({"depot", "a", "b", "c"},
              {0, 600, 1200, 1800, 600, 0, 600, 1200, 1200, 600, 0, 600, 1800, 1200, 600, 0},
              "test");
}

inline Request from_to(int origin, int destination, Window pickup, Window dropoff) {
  return {.trip = 0,
          .origin = origin,
          .destination = destination,
          .pickup = pickup,
          .dropoff = dropoff};
}

}  // namespace flotilla::dvrp
