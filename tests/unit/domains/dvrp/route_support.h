// Instances and routes that a test draws, builds one by one, or tries all of.
#pragma once

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/routing/routes.h"
#include "unit/domains/dvrp/made_up_city.h"

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

// Requests of the made-up city as an env might leave them: half of them shifted, as far as each can
// be served alone.
inline Instance random_instance(int customers, Rng& rng, const Limits& limits = {}) {
  Instance instance = draw_instance(data(), customers, rng);
  instance.limits = limits;
  for (Request& request : instance.requests) {
    const auto action = static_cast<int>(rng.below(kActions));
    const Request moved = shifted(request, shift_of(action));
    const Instance alone{.city = instance.city, .requests = {moved}, .limits = limits};
    if (rng.chance(0.5) && fault_of(alone, {{1, 2}}).empty()) request = moved;
  }
  return instance;
}

// One vehicle for all requests, in random order, with pickups before their drop-offs.
inline Route random_route(Rng& rng, int requests) {
  std::vector<int> order;  // each request twice: first its pickup
  for (int i = 0; i < 2 * requests; ++i) order.push_back(i / 2);
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[rng.below(static_cast<uint32_t>(left))]);
  }
  Route route;
  std::set<int> on_board;
  for (const int request : order) {
    route.push_back(Instance::pickup_of(request) + (on_board.insert(request).second ? 0 : 1));
  }
  return route;
}

// The least cost of all routes, by trying every next node.
inline double best_of_all(const Instance& instance, std::vector<Route>& routes, double bound) {
  const double so_far = cost_of(instance, together(routes));
  if (so_far - static_cast<double>(instance.minutes(routes.back().back(), 0)) >= bound) {
    return bound;
  }
  if (fault_of(instance, together(routes)).empty()) bound = std::min(bound, so_far);
  std::set<int> visited;
  for (const Route& route : routes) visited.insert(route.begin(), route.end());
  const Route last = routes.back();
  for (int node = 1; node < instance.nodes(); ++node) {
    if (visited.contains(node)) continue;
    const bool here = std::ranges::count(last, node - 1) > 0;
    if (Instance::is_pickup(node) || here) {
      routes.back().push_back(node);
      bound = best_of_all(instance, routes, bound);
      routes.back().pop_back();
    }
    // Vehicles in the order of their first requests, so that no set of routes comes twice.
    if (Instance::is_pickup(node) && node > last.front()) {
      routes.push_back({node});
      bound = best_of_all(instance, routes, bound);
      routes.pop_back();
    }
  }
  return bound;
}

inline double best_of_all(const Instance& instance) {
  double best = std::numeric_limits<double>::infinity();
  for (int first = 1; first < instance.nodes(); first += 2) {
    std::vector<Route> routes = {{first}};
    best = best_of_all(instance, routes, best);
  }
  return best;
}

}  // namespace flotilla::dvrp
