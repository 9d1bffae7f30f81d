// Requests of a city as a standard instance, for solvers that know nothing of its tables: a file of
// dial-a-ride by Cordeau (reader.h) and the travel times beside it (times.h), in whole seconds, in
// which both are exact. Positions are for maps alone: ways through a city are no straight lines.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/data/instance.h"

namespace flotilla::dvrp::standard {

// The depot is stop 0; request k, from 0, is picked up at k + 1 and dropped off at n + k + 1. There
// are as many vehicles as requests, and no limits of routes and rides but the day.
std::string cordeau_text(const Instance& instance);
// They depend on the cells of the requests alone, not on their windows.
std::string times_text(const Instance& instance);

}  // namespace flotilla::dvrp::standard
