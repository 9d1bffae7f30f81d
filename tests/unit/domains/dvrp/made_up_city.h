// The city that most tests are about, and its travellers.
#pragma once

#include "flotilla/domains/dvrp/data/generate.h"

namespace flotilla::dvrp {

inline const Data& data() {
  static const Data made = generate_data({});
  return made;
}

}  // namespace flotilla::dvrp
