// Routes that a test builds one by one.
#pragma once

#include <vector>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

inline Routes together(const std::vector<Route>& each) {
  Routes routes;
  for (const Route& route : each) routes.add(route);
  return routes;
}

inline std::vector<Route> one_by_one(const Routes& routes) {
  std::vector<Route> each;
  for (const RouteView route : routes) each.emplace_back(route.begin(), route.end());
  return each;
}

}  // namespace flotilla::dvrp
