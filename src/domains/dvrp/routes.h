// Routes of vehicles, what they cost, and whether they are any good: the referee of everything that
// makes routes, and independent of all of it.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/instance.h"

namespace flotilla::dvrp {

using Route = std::vector<int>;  // nodes, without the depot at both ends

// Minutes of travel with the ways from and to the depot; waiting is free.
double cost_of(const Instance& instance, const std::vector<Route>& routes);

// What breaks a rule, or "", with routes and requests counted from 1: every request is served once;
// its drop-off comes behind its pickup in the same vehicle; nobody more than the capacity is on
// board; a vehicle leaves the depot at 0, waits where it is early, is never late, and is back
// before the day ends.
std::string fault_of(const Instance& instance, const std::vector<Route>& routes);

}  // namespace flotilla::dvrp
