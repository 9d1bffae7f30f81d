#include "flotilla/domains/dvrp/standard/solution_file.h"

#include <fmt/format.h>

#include <map>

#include "flotilla/core/error.h"
#include "flotilla/domains/dvrp/routing/routes_file.h"

namespace flotilla::dvrp::standard {

std::vector<Route> decode_routes(const std::string& text, const std::string& path,
                                 const Problem& problem) {
  std::map<int, int> stop_of;
  for (size_t i = 1; i < problem.stops.size(); ++i) {
    stop_of[problem.stops[i].id] = static_cast<int>(i);
  }
  std::vector<Route> routes;
  for (const dvrp::RouteView ids : dvrp::decode_routes(text, path)) {
    Route& route = routes.emplace_back();
    for (const int id : ids) {
      const auto found = stop_of.find(id);
      if (found == stop_of.end()) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}, route {}: there is no stop {}", path, routes.size(), id));
      }
      route.push_back(found->second);
    }
  }
  return routes;
}

}  // namespace flotilla::dvrp::standard
