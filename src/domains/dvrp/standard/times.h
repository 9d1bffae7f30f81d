// Travel times beside a standard instance, for ways that are not straight lines. Beside NAME.txt,
// or NAME.ANYTHING.txt, lies NAME.times: a row of numbers for each stop of the instance from 0 on,
// with the way to each stop in turn, in the unit of its windows. A depot at the end of the instance
// has no row of its own.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

// Where the table of an instance would lie.
std::string times_path(const std::string& instance_path);

// Puts the table in the place of straight distances. Warns of ways that are longer than a detour,
// and of the worst of them. Throws Error(kData) that names file and line: another number of stops,
// a negative time, a way from a stop to itself.
void set_times(Problem& problem, const std::string& text, const std::string& path);

}  // namespace flotilla::dvrp::standard
