// Limits of rides: the checker and the schedule against all times that there are, the solver
// against all places and all routes, and whatever else makes or changes routes under limits.
#include "flotilla/domains/dvrp/data/limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "flotilla/core/json.h"
#include "flotilla/domains/dvrp/data/instance_file.h"
#include "flotilla/domains/dvrp/negotiation/ceiling.h"
#include "flotilla/domains/dvrp/negotiation/trim.h"
#include "flotilla/domains/dvrp/routing/detours.h"
#include "flotilla/domains/dvrp/routing/ride_schedule.h"
#include "flotilla/domains/dvrp/routing/rides.h"
#include "flotilla/domains/dvrp/routing/router.h"
#include "flotilla/domains/dvrp/routing/solver_plan.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/line_city.h"
#include "unit/domains/dvrp/made_up_city.h"
#include "unit/domains/dvrp/route_support.h"

namespace flotilla::dvrp {
namespace {

Rng limits_rng(int i) { return Rng(31, stream_of(Purpose::kTest, static_cast<uint64_t>(i))); }

int below(Rng& rng, int n) { return static_cast<int>(rng.below(static_cast<uint32_t>(n))); }

TEST(Limits, OfARideAreTheSmallerOfBoth) {
  EXPECT_FALSE(Limits{}.any());
  EXPECT_TRUE((Limits{.ride = 60}.any()));
  const Limits both{.ride = 40, .excess = 15};
  EXPECT_DOUBLE_EQ(both.longest_ride_s(600), 600 + 900);
  EXPECT_DOUBLE_EQ(both.longest_ride_s(1800), 2400);
  EXPECT_EQ(limit_of(0), kUnlimited);
}

TEST(Limits, AreKeptByPickingUpLater) {
  const City city = line_city();
  Instance instance{.city = &city, .requests = {from_to(1, 2, {50, 60}, {90, 120})}};
  // Who is picked up at once waits on board: 40 minutes. At 60 he rides for 30.
  instance.limits = {.ride = 30};
  EXPECT_EQ(fault_of(instance, {{1, 2}}), "");
  EXPECT_DOUBLE_EQ(rides_of(instance, {{1, 2}}).on_board, 30);
  EXPECT_DOUBLE_EQ(rides_of(instance, {{1, 2}}).longest_excess, 20);
  RideSchedule schedule(instance);
  ASSERT_TRUE(schedule.follow(std::array{1, 2}));
  EXPECT_DOUBLE_EQ(schedule.minutes(1), 60);
  EXPECT_DOUBLE_EQ(schedule.minutes(2), 90);
  EXPECT_DOUBLE_EQ(schedule.minutes(3), 100);  // the depot is at a
  instance.limits = {.excess = 19.99};
  EXPECT_EQ(fault_of(instance, {{1, 2}}),
            "route 1: request 1 is on board for more than 29.99 minutes, whenever it is served");
  EXPECT_FALSE(RideSchedule(instance).follow(std::array{1, 2}));
  EXPECT_EQ(solve(instance, {.iterations = 10}).cost, kNever);
  instance.limits = {.excess = 20 - 5e-7};  // a rounding
  EXPECT_EQ(fault_of(instance, {{1, 2}}), "");
}

TEST(Limits, RidesThatAreShortEachMayNotBeSoTogether) {
  const City city = line_city();
  const Window whole{0, kDay};
  // The first boards by 100 and gets off at the end; the second is there from 115 on, and has to
  // leave by 120.
  Instance instance{
      .city = &city,
      .requests = {from_to(1, 3, {90, 100}, whole), from_to(2, 3, {115, 200}, {0, 140})}};
  const Routes shared = {{1, 3, 2, 4}};
  instance.limits = {.ride = 25};
  EXPECT_EQ(fault_of(instance, shared), "");
  EXPECT_DOUBLE_EQ(rides_of(instance, shared).on_board, 25 + 10);
  instance.limits = {.ride = 24};
  EXPECT_EQ(fault_of(instance, shared),
            "route 1: request 1 is on board for more than 24.00 minutes, whenever it is served");
  // Each can be served within 12 minutes, by waiting at other stops; not both.
  Instance chain{
      .city = &city,
      .requests = {from_to(1, 2, {0, 100}, {112, 300}), from_to(2, 3, {0, 113}, {125, 300})}};
  chain.limits = {.ride = 12};
  EXPECT_EQ(fault_of(chain, {{1, 2}, {3, 4}}), "");
  Instance crossing{
      .city = &city,
      .requests = {from_to(1, 2, {100, 100}, {0, 112}), from_to(1, 2, {98, 99}, {111, 300})}};
  crossing.limits = {.ride = 12};
  EXPECT_EQ(fault_of(crossing, {{3, 1, 2, 4}}), "");
  crossing.requests[0].dropoff = {112, 112};
  EXPECT_EQ(fault_of(crossing, {{3, 1, 2, 4}}),
            "route 1: request 2 is on board for more than 12.00 minutes, whenever it is served");
}

// Whether a route has times, by trying every minute: with travel, windows and limits in whole
// minutes, whole minutes are enough.
bool has_times_by_trial(const Instance& instance, const Route& route, std::vector<int>& times) {
  const size_t at = times.size();
  const int node = at < route.size() ? route[at] : 0, before = at > 0 ? route[at - 1] : 0;
  const int ready =
      (at > 0 ? times.back() : 0) +
      static_cast<int>(instance.city->seconds(instance.cell(before), instance.cell(node)) / 60);
  if (at == route.size()) return ready <= 1440;
  const Window window = instance.window(node);
  for (int time = std::max(ready, static_cast<int>(window.early));
       time <= static_cast<int>(window.late); ++time) {
    if (!Instance::is_pickup(node)) {
      const auto pickup = std::ranges::find(route, node - 1) - route.begin();
      const auto direct = instance.city->seconds(instance.cell(node - 1), instance.cell(node)) / 60;
      const int on_board = time - times[static_cast<size_t>(pickup)];
      if (on_board > instance.limits.ride) break;
      if (on_board - static_cast<int>(direct) > instance.limits.excess) break;
    }
    times.push_back(time);
    const bool possible = has_times_by_trial(instance, route, times);
    times.pop_back();
    if (possible) return true;
  }
  return false;
}

// Whole minutes, tight windows: about half of the routes can be driven.
City small_city(Rng& rng) {
  std::vector<int64_t> seconds(16, 0);
  for (size_t i = 0; i < 16; ++i) seconds[i] = i % 5 == 0 ? 0 : 60 * (3 + below(rng, 6));
  return City({"depot", "a", "b", "c"}, seconds, "test");
}

Instance small_instance(const City& city, Rng& rng, int requests) {
  Instance instance{.city = &city, .requests = {}};
  for (int i = 0; i < requests; ++i) {
    const int origin = 1 + below(rng, 3), destination = 1 + (origin + below(rng, 2)) % 3;
    const auto early = static_cast<float>(10 + below(rng, 12)),
               wide = static_cast<float>(below(rng, 14));
    const float late = early + wide + static_cast<float>(below(rng, 14));
    instance.requests.push_back(from_to(origin, destination, {early, early + wide},
                                        {late, late + static_cast<float>(below(rng, 14))}));
  }
  if (rng.chance(0.7)) instance.limits.ride = 5 + below(rng, 14);
  if (rng.chance(0.7)) instance.limits.excess = 1 + below(rng, 10);
  return instance;
}

TEST(Limits, CheckerAndScheduleFindTimesWhereThereAreAny) {
  int kept = 0, broken_by_limits = 0, delayed = 0;
  for (int i = 0; i < 4000; ++i) {
    Rng rng = limits_rng(i);
    const City city = small_city(rng);
    const int requests = 1 + below(rng, 3);
    Instance instance = small_instance(city, rng, requests);
    const Route route = random_route(rng, requests);
    std::vector<int> times;
    const bool possible = has_times_by_trial(instance, route, times);
    ASSERT_EQ(fault_of(instance, {route}).empty(), possible) << i;
    if (!instance.limits.any()) continue;
    RideSchedule schedule(instance);
    ASSERT_EQ(schedule.follow(route), possible) << i;
    kept += possible;
    const Rides rides = possible ? rides_of(instance, {route}) : Rides{};
    EXPECT_LE(rides.longest_excess, instance.limits.excess + 1e-6);
    Instance free = instance;
    free.limits = {};
    const bool free_possible = fault_of(free, {route}).empty();
    broken_by_limits += free_possible && !possible;
    delayed += possible && rides.on_board < rides_of(free, {route}).on_board - 1e-6;
  }
  EXPECT_GT(kept, 300);
  EXPECT_GT(broken_by_limits, 300);
  EXPECT_GT(delayed, 30) << "rides that are shorter because a vehicle waits elsewhere";
}

Route with_request(Route route, int request, size_t pickup, size_t dropoff) {
  const auto behind = [&route](size_t i) { return route.begin() + static_cast<std::ptrdiff_t>(i); };
  route.insert(behind(dropoff), Instance::pickup_of(request) + 1);
  route.insert(behind(pickup), Instance::pickup_of(request));
  return route;
}

// Of one route alone: the others are not served, which is no fault of it.
bool is_drivable(const Instance& instance, const Route& route) {
  const std::string fault = fault_of(instance, {route});
  return fault.empty() || fault.ends_with("is not served");
}

TEST(Limits, OfPlacesTheBestIsTheCheapestOfAll) {
  int places = 0, nowhere = 0, dearer = 0;
  for (int i = 0; i < 40; ++i) {
    Rng rng = limits_rng(5000 + i);
    const Instance instance = random_instance(2 + i % 20, rng, {.excess = 3.0 + i % 13});
    Instance free = instance;
    free.limits = {};
    Problem problem(instance), free_problem(free);
    Vehicle vehicle(problem);
    Route route;
    for (int request = 0; request < static_cast<int>(instance.requests.size()); ++request) {
      double best = kNever;
      for (size_t p = 0; p <= route.size(); ++p) {
        for (size_t d = p; d <= route.size(); ++d) {
          const Route longer = with_request(route, request, p, d);
          if (!is_drivable(instance, longer)) continue;
          best = std::min(best, cost_of(instance, {longer}) - cost_of(instance, {route}));
        }
      }
      const Place place = vehicle.best_place(request);
      if (best == kNever) {
        ASSERT_EQ(place.extra, kNever);
        ++nowhere;
        continue;
      }
      ASSERT_NEAR(place.extra, best, 1e-4) << i;
      dearer += Vehicle(free_problem, route).best_place(request).extra < best - 1e-3 ? 1 : 0;
      vehicle.insert(request, place);
      ASSERT_TRUE(vehicle.in_time());
      route = with_request(route, request, place.pickup, place.dropoff);
      ++places;
    }
  }
  EXPECT_GT(places, 150);
  EXPECT_GT(nowhere, 50);
  EXPECT_GT(dearer, 20) << "places that the limits close";
}

TEST(Limits, TheSolverFindsTheBestRoutesOfSmallInstances) {
  int dearer = 0;
  for (int i = 0; i < 60; ++i) {
    Rng rng = limits_rng(6000 + i);
    Instance instance = draw_instance(data(), 3, rng);
    for (Request& request : instance.requests) {  // at the same time, and anywhere in it
      request.pickup = {400, 460};
      request.dropoff = {400, 560};
    }
    instance.limits = {.excess = 0.5 + 2 * (i % 5)};
    const double best = best_of_all(instance);
    const Solution found = solve(instance, {.iterations = 200, .seed = 1});
    EXPECT_EQ(fault_of(instance, found.routes), "") << i;
    EXPECT_NEAR(found.cost, best, 1e-3) << i;
    Instance free = instance;
    free.limits = {};
    dearer += solve(free, {.iterations = 200, .seed = 1}).cost < best - 1e-3 ? 1 : 0;
  }
  EXPECT_GT(dearer, 10) << "routes that the limits forbid";
}

TEST(Limits, AreKeptByEverythingThatMakesRoutes) {
  ThreadPool alone(1);
  const auto router = make_insertion_router({.improve = 20, .refine = 40}, alone);
  double limited = 0, free_cost = 0;
  for (int i = 0; i < 30; ++i) {
    Rng rng = limits_rng(7000 + i);
    const Limits limits{.ride = i % 3 == 0 ? 60.0 : kUnlimited, .excess = 5.0 + i};
    const Instance instance = random_instance(1 + i, rng, limits);
    const Solution inserted = solve(instance, {.iterations = 0});
    EXPECT_EQ(fault_of(instance, inserted.routes), "");
    EXPECT_EQ(fault_of(instance, improve(instance, inserted.routes, 20).routes), "");
    EXPECT_EQ(fault_of(instance, refine(instance, inserted.routes, 40).routes), "");
    const Instance* const one = &instance;
    Tour tour;
    router->route({&one, 1}, {&tour, 1});
    EXPECT_EQ(fault_of(instance, tour.routes), "");
    EXPECT_LE(rides_of(instance, tour.routes).longest_excess, limits.excess + 1e-6);
    limited += tour.cost;
    Instance free = instance;
    free.limits = {};
    const Instance* const other = &free;
    router->route({&other, 1}, {&tour, 1});
    free_cost += tour.cost;
  }
  EXPECT_GT(limited, 1.01 * free_cost) << "limits cost something";
}

TEST(Limits, CeilingsAndTrimmedDaysKeepThem) {
  double loose = 0, tight = 0;
  for (int i = 0; i < 4; ++i) {
    Rng rng = limits_rng(8000 + i);
    Instance asked = draw_instance(data(), 20, rng);
    const CeilingOptions options{.starts = 1, .iterations = 300, .seed = 1};
    const auto best = [&](const Limits& limits) {
      asked.limits = limits;
      const Ceiling found = find_ceiling(asked, data().travellers, options);
      EXPECT_EQ(found.granted.limits, limits);
      EXPECT_EQ(fault_of(found.granted, found.solution.routes), "");
      EXPECT_EQ(fault_of(asked, found.plain.routes), "");
      EXPECT_LE(rides_of(found.granted, found.solution.routes).longest_excess,
                limits.excess + 1e-6);
      const Trimmed again = trim(asked, found.granted, data().travellers, found.solution.routes);
      EXPECT_EQ(again.actions, found.actions) << "nothing is left to trim";
      return found.solution.cost;
    };
    loose += best({.excess = 60});
    tight += best({.excess = 5});
  }
  EXPECT_LT(loose, tight);
}

double least_by_trial(const Instance& instance, const Routes& routes) {
  std::vector<Route> each = one_by_one(routes);
  each.emplace_back();
  const int request = static_cast<int>(instance.requests.size()) - 1;
  double least = kNever;
  for (const Route& route : each) {
    for (size_t p = 0; p <= route.size(); ++p) {
      for (size_t d = p; d <= route.size(); ++d) {
        const Route longer = with_request(route, request, p, d);
        if (!is_drivable(instance, longer)) continue;
        least = std::min(least, cost_of(instance, {longer}) - cost_of(instance, {route}));
      }
    }
  }
  return least;
}

TEST(Limits, DetoursAreTheLeastThatKeepThem) {
  int dearer = 0, never = 0;
  for (int i = 0; i < 16; ++i) {
    Rng rng = limits_rng(9000 + i);
    Instance instance = random_instance(14, rng, {.excess = 2.0 + i});
    const Request asked = request_for(data().travellers, instance.requests.back().trip);
    instance.requests.pop_back();
    const Routes routes = solve(instance, {.iterations = 50}).routes;
    Detours detours(data().city, instance.limits), free(data().city);
    for (const RouteView route : routes) {
      for (const int node : route) {
        detours.visit(instance.request_at(node), node);
        free.visit(instance.request_at(node), node);
      }
      detours.end_route();
      free.end_route();
    }
    const auto of_shifts = detours_of_shifts(detours, asked),
               freely = detours_of_shifts(free, asked);
    for (int action = 0; action < kActions; ++action) {
      instance.requests.push_back(shifted(asked, shift_of(action)));
      const double expected = least_by_trial(instance, routes);
      instance.requests.pop_back();
      const auto found = static_cast<double>(of_shifts[static_cast<size_t>(action)]);
      never += expected == kNever ? 1 : 0;
      if (expected == kNever) {
        ASSERT_EQ(found, kNever) << i << ", action " << action;
        continue;
      }
      ASSERT_NEAR(found, expected, 1e-2) << i << ", action " << action;
      dearer += static_cast<double>(freely[static_cast<size_t>(action)]) < expected - 0.1 ? 1 : 0;
    }
  }
  EXPECT_GT(dearer, 5) << "places that the limits close";
  EXPECT_GT(never, 5) << "offers that alone break them";
}

TEST(InstanceFiles, HaveTheLimitsOfRides) {
  Rng rng = limits_rng(9100);
  Instance instance = draw_instance(data(), 3, rng);
  const std::string plain = encode_instance(instance);
  EXPECT_EQ(plain.find("max_"), std::string::npos);
  EXPECT_EQ(decode_instance(plain, "file", data()).limits, Limits{});
  instance.limits = {.ride = 60.5, .excess = 30};
  EXPECT_EQ(decode_instance(encode_instance(instance), "file", data()).limits, instance.limits);
  instance.limits = {.excess = 15};
  EXPECT_EQ(decode_instance(encode_full_instance(instance), "file", data()).limits,
            instance.limits);
  const auto refusal = [&](const Json& value) {
    Json json = Json::parse(plain);
    json["max_ride"] = value;
    return test::error_text(ErrorCode::kData,
                            [&] { decode_instance(json.dump(), "file", data()); });
  };
  EXPECT_EQ(refusal(0), "file: max_ride: expected minutes above 0, got 0");
  EXPECT_EQ(refusal("long"), "file: 'max_ride' is missing or wrong");
}

}  // namespace
}  // namespace flotilla::dvrp
