// A made-up city and its travellers, with the statistics of the data this stands in for: San
// Francisco in 31 cells, 30 travellers with some fifty trips each.
#pragma once

#include "flotilla/domains/dvrp/data/data.h"

namespace flotilla::dvrp {

struct GenerateOptions {
  int cells = 31, travellers = 30;
  uint64_t seed = 0;
};

// Determinism: the same options give the same city and the same travellers.
City generate_city(const GenerateOptions& options);
Travellers generate_travellers(const City& city, const GenerateOptions& options);
Data generate_data(const GenerateOptions& options);

}  // namespace flotilla::dvrp
