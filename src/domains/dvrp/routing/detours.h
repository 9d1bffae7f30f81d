// What it would cost to serve one more request with the routes as they are: the least detour of a
// vehicle that takes it on between its stops, or a vehicle of its own. A hint to a negotiator,
// which knows its routes; the oracle may find better ones.
#pragma once

#include <array>
#include <span>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

// Allocates: nothing.
class Detours {
 public:
  // Of no vehicle but one that has nothing to do yet. REQUIRES: the city outlives it.
  explicit Detours(const City& city, const Limits& limits = {});

  // A route, stop by stop, then its end; the request is the node's. REQUIRES: no fault, and no more
  // than kMostCustomers.
  void visit(const Request& request, int node);
  void end_route();

  // Minutes.
  float least(const Request& request) const;

 private:
  struct Stop {
    int cell;
    float early;   // when it may begin
    float ready;   // when the vehicle begins there
    float latest;  // when it must begin, to be in time everywhere behind
    int load;      // on board when it leaves
    // For limits of rides.
    float late;     // end of its window
    int node;       // 0: the depot
    size_t pickup;  // of a drop-off: the stop of its vehicle where the ride begins
  };

  void add(const Stop& stop) { stops_[count_++] = stop; }
  void find_times(std::span<Stop> stops) const;
  float least_in(std::span<const Stop> stops, const Request& request) const;
  // With the request's pickup behind one stop, and its drop-off behind another.
  bool keeps_limits(std::span<const Stop> stops, const Request& request, size_t pickup_behind,
                    size_t dropoff_behind) const;

  const City& city_;
  const Limits limits_;
  const Stop depot_;
  // Of all vehicles, one behind the other, each with the depot at both ends.
  std::array<Stop, 4 * kMostCustomers> stops_;
  std::array<size_t, kMostCustomers> ends_;  // by vehicle: behind its last stop
  size_t count_ = 0, vehicles_ = 0;
};

// Of the request under each of the 16 shifts.
std::array<float, kActions> detours_of_shifts(const Detours& detours, const Request& request,
                                              Granting granting = Granting::kMove);

}  // namespace flotilla::dvrp
