// Limits of rides beside a standard instance, for requests that do not all have the same one, such
// as so many minutes beyond the direct way. Beside NAME.txt, or NAME.ANYTHING.txt, lies NAME.rides:
// the longest ride of each request on a line of its own, in the order of the pickups in the
// instance and in the unit of its windows. The limit of the instance holds as well.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

// Where the list of an instance would lie.
std::string rides_path(const std::string& instance_path);

// Throws Error(kData) that names file and line: another number of requests, a negative ride.
void set_rides(Problem& problem, const std::string& text, const std::string& path);

}  // namespace flotilla::dvrp::standard
