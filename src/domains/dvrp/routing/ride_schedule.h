// When a vehicle serves its stops so that no ride is longer than the instance's limits allow: as
// early as that can be, and later than a vehicle would be there where it shortens a ride. In
// seconds, of which travel times are whole.
//
// Thread safety: none.
// Allocates: nothing for as many requests as were reserved.
#pragma once

#include <span>
#include <vector>

#include "flotilla/domains/dvrp/data/instance.h"
#include "flotilla/domains/dvrp/routing/timetable.h"

namespace flotilla::dvrp {

class RideSchedule {
 public:
  RideSchedule() = default;  // of no instance, without limits
  explicit RideSchedule(const Instance& instance) { set(instance); }

  void reserve(int requests);
  // REQUIRES: the city outlives it.
  void set(const Instance& instance);
  // Without limits windows say it all, and nothing below is needed.
  bool limited() const { return limited_; }

  // A vehicle, node by node from the depot on, or from a node where nobody is on board, served at
  // so many seconds. finish(): back to the depot, and whether there are times. REQUIRES: a pickup
  // comes before its drop-off.
  void start() { start(0, 0); }
  void start(int node, double seconds);
  void visit(int node);
  bool finish();
  // All of it.
  bool follow(std::span<const int> route) {
    start();
    for (const int node : route) visit(node);
    return finish();
  }
  // Then, of a node by its place from the start on.
  double seconds(size_t place) const { return stops_[place].time; }
  double minutes(size_t place) const { return seconds(place) / 60; }

 private:
  const City* city_ = nullptr;
  bool limited_ = false;
  std::vector<TimedStop> of_node_;  // without what depends on the route
  std::vector<int> cells_;          // by node
  std::vector<TimedStop> stops_;    // of the route
  std::vector<size_t> places_;      // by node, in the route
  int at_ = 0;
  // With every stop as soon as windows allow, as it is at first.
  bool late_ = false, too_long_ = false;
};

}  // namespace flotilla::dvrp
