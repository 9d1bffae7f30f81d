// A picture of routes: on the left the city with every vehicle's way, on the right when each
// vehicle serves whom, with the windows of every request.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

// When a vehicle is where. It leaves the depot as late as the first stop allows; it serves a stop
// as soon as windows, and limits of rides, allow.
struct Stop {
  int node = 0;
  double arrival = 0, service = 0;  // minutes; in between it waits
};
// With the depot at both ends. REQUIRES: nodes of the instance, and at least one.
std::vector<Stop> schedule_of(const Instance& instance, RouteView route);

// Vehicles are numbered from 1, in the order of their first pickups. REQUIRES: the routes keep all
// rules, and the instance is of `data`.
// Determinism: the same arguments give the same bytes.
std::string routes_svg(const Data& data, const Instance& instance, const Routes& routes);

}  // namespace flotilla::dvrp
