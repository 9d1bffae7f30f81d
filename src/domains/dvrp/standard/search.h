// Large-neighbourhood search for standard instances (Ropke and Pisinger, 2006): requests are taken
// out of the routes and put in again where they cost least, under simulated annealing. Those that
// find no place wait in a bank. Where fewer vehicles come first, routes are dissolved one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

struct SearchOptions {
  int64_t iterations = 20'000;
  double seconds = 0;  // above 0: as many iterations as there is time for
  uint64_t seed = 0;
};

struct Found {
  std::vector<Route> routes;  // none of them empty
  std::vector<int> bank;      // requests that found no place
  double distance = 0;
  int64_t iterations = 0;
};

// Determinism: by iterations, the same problem and options give the same routes. Throws
// Error(kInterrupted).
Found search(const Problem& problem, const SearchOptions& options);

}  // namespace flotilla::dvrp::standard
