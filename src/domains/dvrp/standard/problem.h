// Pickup and delivery as the field's standard instances have it: stops in the plane, in double
// precision, with service times, loads, a fleet, and limits of routes and of rides.
//
// Stops: 0 is the depot; request k is picked up at 2k + 1 and delivered at 2k + 2. Files number
// them otherwise: `id`.
//
// A vehicle leaves the depot when it likes and may wait at any stop, also to shorten the rides of
// those it has on board or is about to pick up. Travel takes as long as the distance is.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace flotilla::dvrp::standard {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Stop {
  int id = 0;
  double x = 0, y = 0;
  double service = 0;
  int load = 0;                            // that gets on; negative: off
  double earliest = 0, latest = kNoLimit;  // at which service begins
  double longest_ride = kNoLimit;  // that may end here, where requests have their own limits
};

struct Problem {
  std::vector<Stop> stops;
  double back_earliest = 0, back_latest = kNoLimit;  // at the depot, at the end
  int vehicles = 0, seats = 0;
  double route_limit = kNoLimit;  // from the depot to the depot
  double ride_limit = kNoLimit;   // of all rides
  bool vehicles_first = false;    // fewer are better, whatever the distance
  std::vector<double> distances;  // by stop and stop

  int requests() const { return static_cast<int>(stops.size()) / 2; }
  static constexpr int pickup_of(int request) { return 2 * request + 1; }
  static constexpr int request_of(int stop) { return (stop - 1) / 2; }
  static constexpr bool is_pickup(int stop) { return stop % 2 == 1; }
  const Stop& stop(int index) const { return stops[static_cast<size_t>(index)]; }
  double distance(int from, int to) const {
    return distances[static_cast<size_t>(from) * stops.size() + static_cast<size_t>(to)];
  }
  // From the end of the pickup to the beginning of this delivery.
  double longest_ride(int delivery) const {
    return std::min(ride_limit, stop(delivery).longest_ride);
  }
  // Of all pairs of stops, once these are there.
  void measure();
};

// Stops in order, without the depot at both ends.
using Route = std::vector<int>;
using RouteView = std::span<const int>;

double length_of(const Problem& problem, RouteView route);

}  // namespace flotilla::dvrp::standard
