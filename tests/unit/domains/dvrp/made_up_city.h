// The city that most tests are about, and its travellers.
#pragma once

#include "flotilla/domains/dvrp/data/generate.h"

namespace flotilla::dvrp {

inline const Data& data() {
  static const Data made = generate_data({});
  return made;
}

inline const Trip& trip_of(const Request& request) {
  return data().travellers.trips[static_cast<size_t>(request.trip)];
}

}  // namespace flotilla::dvrp
