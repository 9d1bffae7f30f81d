// What it would cost to serve one more request with the routes as they are: the least detour of a
// vehicle that takes it on between its stops, or a vehicle of its own. A hint to a negotiator,
// which knows its routes; the oracle may find better ones.
#pragma once

#include <array>
#include <vector>

#include "flotilla/domains/dvrp/routes.h"

namespace flotilla::dvrp {

// Allocates: a little.
class Detours {
 public:
  // Of routes without fault. REQUIRES: the city outlives it.
  Detours(const Instance& instance, const std::vector<Route>& routes);

  // Minutes.
  float least(const Request& request) const;

 private:
  struct Stop {
    int cell = 0;
    float early = 0;   // when it may begin
    float ready = 0;   // when the vehicle begins there
    float latest = 0;  // when it must begin, to be in time everywhere behind
    int load = 0;      // on board when it leaves
  };
  using Stops = std::vector<Stop>;  // with the depot at both ends

  Stops stops_of(const Instance& instance, const Route& route) const;
  float least_in(const Stops& stops, const Request& request) const;

  const City& city_;
  std::vector<Stops> vehicles_;
};

// Of the request under each of the 16 shifts.
std::array<float, kActions> detours_of_shifts(const Detours& detours, const Request& request);

}  // namespace flotilla::dvrp
