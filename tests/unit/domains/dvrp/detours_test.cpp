// Detours against all places that there are.
#include "flotilla/domains/dvrp/routing/detours.h"

#include <gtest/gtest.h>

#include <limits>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "unit/domains/dvrp/route_support.h"

namespace flotilla::dvrp {
namespace {

// Tries the new request, the last of the instance, behind every two stops of every vehicle.
double least_by_trial(const Instance& instance, std::vector<Route> routes) {
  const double before = cost_of(instance, together(routes));
  const int pickup = Instance::pickup_of(static_cast<int>(instance.requests.size()) - 1);
  routes.emplace_back();
  double least = std::numeric_limits<double>::infinity();
  for (size_t v = 0; v < routes.size(); ++v) {
    const Route old = routes[v];
    for (size_t i = 0; i <= old.size(); ++i) {
      for (size_t j = i; j <= old.size(); ++j) {
        Route changed = old;
        changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(j), pickup + 1);
        changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(i), pickup);
        routes[v] = changed;
        Routes used;
        for (const Route& route : routes) {
          if (!route.empty()) used.add(route);
        }
        if (!fault_of(instance, used).empty()) continue;
        least = std::min(least, cost_of(instance, used) - before);
      }
    }
    routes[v] = old;
  }
  return least;
}

Detours detours_of(const Instance& instance, const Routes& routes) {
  Detours detours(*instance.city, instance.limits);
  for (const RouteView route : routes) {
    for (const int node : route) detours.visit(instance.request_at(node), node);
    detours.end_route();
  }
  return detours;
}

TEST(Detours, AreTheLeastOfAllPlaces) {
  const Data data = generate_data({});
  Rng rng(3, stream_of(Purpose::kTest, 0));
  int shared = 0;
  for (int requests = 1; requests <= 14; ++requests) {
    Instance instance = draw_instance(data, requests + 1, rng);
    const Request asked = instance.requests.back();
    instance.requests.pop_back();
    const Solution routed = solve(instance, {.iterations = 50});
    const Detours detours = detours_of(instance, routed.routes);
    const auto of_shifts = detours_of_shifts(detours, asked);
    const float alone = Detours(data.city).least(asked);
    for (int action = 0; action < kActions; ++action) {
      const Request request = shifted(asked, shift_of(action));
      instance.requests.push_back(request);
      const double expected = least_by_trial(instance, one_by_one(routed.routes));
      instance.requests.pop_back();
      ASSERT_NEAR(static_cast<double>(of_shifts[static_cast<size_t>(action)]), expected, 1e-2)
          << requests << " requests, action " << action;
      shared += of_shifts[static_cast<size_t>(action)] < alone - 1 ? 1 : 0;
    }
  }
  EXPECT_GT(shared, 50) << "rides that are shared";
}

}  // namespace
}  // namespace flotilla::dvrp
