// Routes as files, of whatever solver made them:
//   {"routes": [[1, 3, 2, 4], [5, 6]], ...}
// A route is its nodes without the depot; other fields are not looked at. `dvrp solve --json`
// prints such an object.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

// Whether the routes keep the rules is for fault_of() to say. Throws Error(kData) that names the
// file and the route.
Routes decode_routes(const std::string& text, const std::string& path);

}  // namespace flotilla::dvrp
