// What the solver keeps and skips, against computing all of it anew.
#include "flotilla/domains/dvrp/routing/solver_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "flotilla/domains/dvrp/data/generate.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {
namespace {

Rng plan_rng(int i) { return Rng(13, stream_of(Purpose::kTest, static_cast<uint64_t>(i))); }

// Of every third one, windows are so wide that only the capacity counts.
Instance random_plan_instance(int i, Rng& rng) {
  Instance instance = draw_instance(data(), 2 + i % 29, rng);
  for (Request& request : instance.requests) {
    request = shifted(request, shift_of(static_cast<int>(rng.below(kActions))));
    if (i % 3 == 2) request.pickup = request.dropoff = {100, 1300};
  }
  return instance;
}

bool keeps_rules(const Instance& instance, const Route& route) {
  float time = 0;
  int at = 0, load = 0;
  for (const int node : route) {
    const Window window = instance.window(node);
    time = std::max(time + instance.minutes(at, node), window.early);
    load += Instance::is_pickup(node) ? 1 : -1;
    if (time > window.late || load > kCapacity) return false;
    at = node;
  }
  return time + instance.minutes(at, 0) <= kDay;
}

Route with(Route route, int request, size_t pickup, size_t dropoff) {
  const auto behind = [&route](size_t i) { return route.begin() + static_cast<std::ptrdiff_t>(i); };
  route.insert(behind(dropoff), Instance::pickup_of(request) + 1);
  route.insert(behind(pickup), Instance::pickup_of(request));
  return route;
}

// The twin: tries every place.
Place plain_best_place(const Instance& instance, const Route& route, int request) {
  Place best;
  const double before = cost_of(instance, {route});
  for (size_t i = 0; i <= route.size(); ++i) {
    for (size_t k = i; k <= route.size(); ++k) {
      const Route longer = with(route, request, i, k);
      if (!keeps_rules(instance, longer)) continue;
      const double extra = cost_of(instance, {longer}) - before;
      if (extra < best.extra) best = {extra, static_cast<uint32_t>(i), static_cast<uint32_t>(k)};
    }
  }
  return best;
}

Route route_of(const Vehicle& vehicle) {
  Routes routes;
  vehicle.add_to(routes);
  return Route(routes[0].begin(), routes[0].end());
}

Routes routes_of(const Plan& plan) {
  Routes routes;
  plan.write(routes);
  return routes;
}

TEST(SolverVehicle, KnowsItsTimesAndPlacesAfterEveryChange) {
  int places = 0, nowhere = 0;
  for (int i = 0; i < 60; ++i) {
    Rng rng = plan_rng(i);
    const Instance instance = random_plan_instance(i, rng);
    const int requests = static_cast<int>(instance.requests.size());
    Problem problem(instance);
    Vehicle vehicle(problem);
    std::set<int> on_board;
    for (int change = 0; change < 40; ++change) {
      const int request = static_cast<int>(rng.below(static_cast<uint32_t>(requests)));
      if (on_board.erase(request) > 0) {
        const double before = cost_of(instance, {route_of(vehicle)});
        const double saved = vehicle.take_out(request);
        if (rng.chance(0.5)) continue;  // times are asked for behind several of them
        vehicle.update();
        ASSERT_NEAR(before - saved, cost_of(instance, {route_of(vehicle)}), 1e-9);
        continue;
      }
      vehicle.update();
      ASSERT_EQ(vehicle.in_time(), Vehicle(problem, route_of(vehicle)).in_time());
      const Place place = vehicle.best_place(request);
      const Place anew = Vehicle(problem, route_of(vehicle)).best_place(request);
      ASSERT_EQ(place.extra, anew.extra);
      ASSERT_EQ(place.pickup, anew.pickup);
      ASSERT_EQ(place.dropoff, anew.dropoff);
      const Place plain = plain_best_place(instance, route_of(vehicle), request);
      if (plain.extra == kNever) {
        ASSERT_EQ(place.extra, kNever);
        ++nowhere;
        continue;
      }
      ASSERT_NEAR(place.extra, plain.extra, 1e-9) << "instance " << i << ", change " << change;
      ++places;
      vehicle.insert(request, place);
      on_board.insert(request);
    }
  }
  EXPECT_GT(places, 500);
  EXPECT_GT(nowhere, 20);
}

TEST(SolverPlan, CountsWhatItsChangesCost) {
  for (int i = 0; i < 40; ++i) {
    Rng rng = plan_rng(100 + i);
    const Instance instance = random_plan_instance(i, rng);
    const int requests = static_cast<int>(instance.requests.size());
    Problem problem(instance);
    Memo memo(requests);
    Plan plan(problem, memo);
    std::vector<int> out(instance.requests.size());
    std::iota(out.begin(), out.end(), 0);
    ASSERT_TRUE(plan.insert_all(out, 4, rng));
    for (int change = 0; change < 30; ++change) {
      const int a = static_cast<int>(rng.below(static_cast<uint32_t>(requests)));
      const int b = static_cast<int>(rng.below(static_cast<uint32_t>(requests)));
      const double before = plan.cost();
      bool better = plan.relocate(a);
      if (!plan.together(a, b)) better = plan.exchange(a, b) || better;
      EXPECT_EQ(plan.cost() < before, better);
      out = {a};
      Plan next = plan;
      if (next.take_out(out) && next.insert_all(out, 4, rng)) plan = next;
      ASSERT_EQ(fault_of(instance, routes_of(plan)), "");
      ASSERT_NEAR(plan.cost(), cost_of(instance, routes_of(plan)), 1e-6);
    }
  }
}

}  // namespace
}  // namespace flotilla::dvrp
