// Requests of a city as a standard instance, for solvers that know nothing of its tables: a file of
// dial-a-ride by Cordeau (reader.h), the travel times beside it (times.h) and, where rides are
// limited by their direct ways, the longest ones (rides.h), in seconds, in which all are exact.
// Positions are for maps alone: ways through a city are no straight lines.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/data/instance.h"

namespace flotilla::dvrp::standard {

// The depot is stop 0; request k, from 0, is picked up at k + 1 and dropped off at n + k + 1. There
// are as many vehicles as requests, and no limit of routes but the day. The limit of rides is that
// of the longest one.
std::string cordeau_text(const Instance& instance);
// These depend on the cells of the requests alone, not on their windows.
std::string times_text(const Instance& instance);
// Empty where the file of the instance has the limits of all rides.
std::string rides_text(const Instance& instance);

}  // namespace flotilla::dvrp::standard
