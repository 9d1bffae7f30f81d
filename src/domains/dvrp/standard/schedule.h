// Schedules of standard instances: whether a vehicle can make given stops in given order, and when
// it is where (routing/timetable.h).
#pragma once

#include <vector>

#include "flotilla/domains/dvrp/routing/timetable.h"
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
  std::vector<double> times() const;

 private:
  bool fits(RouteView route) const;
  void add(int stop);

  const Problem& problem_;
  std::vector<TimedStop> stops_;  // with the depot at both ends
  std::vector<size_t> place_of_;  // by stop
  int at_ = 0;                    // the last stop
};

}  // namespace flotilla::dvrp::standard
