// When a vehicle is where. For given stops all rules together say of pairs of times that one is at
// least so much after the other: windows, travel, rides, the length of the route. So there are
// earliest times that keep them all, or none; what makes a ride too long is answered by picking up
// later, which is what the eight-step schedule of Cordeau and Laporte (2003) does by slacks.
#pragma once

#include <vector>

#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

// Thread safety: none. Allocates: nothing once it has seen the longest route.
class Scheduler {
 public:
  explicit Scheduler(const Problem& problem) : problem_(problem), place_of_(problem.stops.size()) {}

  // Whether vehicles can make these stops in this order: loads, times, rides. REQUIRES: pickups
  // stand before their deliveries.
  bool is_feasible(RouteView route);
  // Then, when service begins at each of them, with the depot at both ends.
  std::span<const double> times() const { return times_; }

 private:
  bool fits(RouteView route) const;
  bool push_forward(size_t from);
  // Times that must be later for rides and the route not to be too long; the first of them, or
  // npos.
  size_t pull_up();

  static constexpr size_t kNone = static_cast<size_t>(-1);

  const Problem& problem_;
  std::vector<int> stops_;  // with the depot at both ends
  std::vector<double> times_, least_;
  std::vector<size_t> place_of_;  // by stop
};

}  // namespace flotilla::dvrp::standard
