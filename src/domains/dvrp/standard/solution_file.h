// Routes of standard instances as files:
//   {"routes": [[3, 19, 1, 17], ...], ...}
// A route is its stops by the numbers of the instance's file, without the depot; other fields are
// not looked at.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

// Throws Error(kData) that names the file, and a number that is no stop of the problem.
std::vector<Route> decode_routes(const std::string& text, const std::string& path,
                                 const Problem& problem);

}  // namespace flotilla::dvrp::standard
