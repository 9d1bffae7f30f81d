// A solver for dial-a-ride: insertion, then large-neighbourhood search (Ropke and Pisinger, "An
// adaptive large neighborhood search heuristic for the pickup and delivery problem with time
// windows", 2006). It takes seconds where the oracle takes microseconds: the referee of what that
// one makes, and its teacher.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

struct SolveOptions {
  int iterations = 5000;
  double seconds = 0;  // above 0: as many iterations as there is time for
  uint64_t seed = 0;
  // An interrupt ends the search with what it has found. For those who then throw that away:
  // training goes on from there, and its bits must not depend on when somebody stopped it.
  bool stoppable = false;
};

struct Solution {
  Routes routes;
  double cost = 0;  // infinity: a request cannot even be served alone
  int64_t iterations = 0;
};

// Determinism: by iterations, the same instance and options give the same routes.
Solution solve(const Instance& instance, const SolveOptions& options);

// Requests that stand for each other, by customer: of each of these lists one is served.
using Versions = std::vector<std::vector<int>>;
// As above, of the cheapest versions that are found: they and their routes are searched for
// together.
Solution solve(const Instance& instance, const Versions& versions, const SolveOptions& options);

// Moves requests to other places, and exchanges two between vehicles, as long as that shortens the
// routes; at most `passes` times over all of them. REQUIRES: routes without fault.
Solution improve(const Instance& instance, const Routes& routes, int passes);
// Large-neighbourhood search from there on, which never makes them worse. REQUIRES: the same.
// Determinism: the same instance and routes give the same routes.
Solution refine(const Instance& instance, const Routes& routes, int iterations);

// The same with memory of its own, for one instance after the other. Each returns its iterations.
//
// Thread safety: none.
// Allocates: nothing for instances, and into tours, of as many requests as were reserved; memory
// grows to the largest instance otherwise, and stays.
class Solver {
 public:
  Solver();
  Solver(Solver&& other) noexcept;
  ~Solver();

  void reserve(int requests);
  int64_t solve(const Instance& instance, const SolveOptions& options, Tour& tour);
  int64_t solve(const Instance& instance, const Versions& versions, const SolveOptions& options,
                Tour& tour);
  // Puts the last request where it costs least in the routes of the tour, which are of all others.
  void append(const Instance& instance, Tour& tour);
  // From the routes of the tour.
  int64_t improve(const Instance& instance, int passes, Tour& tour);
  int64_t refine(const Instance& instance, int iterations, Tour& tour);

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

}  // namespace flotilla::dvrp
