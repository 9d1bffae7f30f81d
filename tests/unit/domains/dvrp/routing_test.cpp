// Instances, the checker of routes against routes that break one rule each, and the solver against
// the best of all routes on small instances.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "flotilla/core/json.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/data/instance_file.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/made_up_city.h"
#include "unit/domains/dvrp/route_support.h"

namespace flotilla::dvrp {
namespace {

Rng rng_of(int i) { return Rng(11, stream_of(Purpose::kTest, static_cast<uint64_t>(i))); }

TEST(Instances, HaveATripOfEachTraveller) {
  Rng rng = rng_of(0);
  const Instance all = draw_instance(data(), 30, rng);
  std::set<int> travellers;
  for (const Request& request : all.requests) {
    const Trip& trip = data().travellers.trips[static_cast<size_t>(request.trip)];
    travellers.insert(trip.traveller);
    EXPECT_EQ(request.origin, trip.origin);
    EXPECT_EQ(request.dropoff, trip.dropoff);
  }
  EXPECT_EQ(travellers.size(), 30u);
  EXPECT_EQ(all.nodes(), 61);
  Rng again = rng_of(0);
  EXPECT_EQ(draw_instance(data(), 30, again).requests, all.requests);
  EXPECT_EQ(draw_instance(data(), 7, rng).requests.size(), 7u);
}

TEST(Instances, ShiftsStayInTheDay) {
  const Request request{.pickup = {10, 40}, .dropoff = {1400, 1430}};
  const Request moved = shifted(request, {.pickup = 30, .dropoff = 20});
  EXPECT_EQ(moved.pickup, (Window{0, 30}));
  EXPECT_EQ(moved.dropoff, (Window{1410, 1440}));
}

TEST(InstanceFiles, AreReadAsTheyWereWrittenOrRefused) {
  Rng rng = rng_of(5);
  const Instance instance = random_instance(4, rng);
  const std::string text = encode_instance(instance);
  EXPECT_EQ(decode_instance(text, "file", data()).requests, instance.requests);
  const auto refusal = [&text](const std::string& from, const std::string& to) {
    std::string altered = text;
    altered.replace(altered.find(from), from.size(), to);
    return test::error_text(ErrorCode::kData, [&] { decode_instance(altered, "file", data()); });
  };
  EXPECT_EQ(refusal("{", "["), "file: is not JSON");
  EXPECT_EQ(refusal("\"format\": 1", "\"format\": 2"),
            "file: is of format 2, this program reads 1");
  EXPECT_EQ(refusal("\"pickup\"", "\"pick\""), "file, request 1: 'pickup' is missing or wrong");
  EXPECT_EQ(refusal("\"trip\": ", "\"trip\": 99999"),
            fmt::format("file, request 1: there is no trip 99999{}, there are 1565",
                        instance.requests[0].trip + 1));
  EXPECT_EQ(refusal("\"pickup\": [\n    ", "\"pickup\": [\n    -"),
            "file, request 1: pickup: a window outside of the day");
  EXPECT_EQ(refusal("\"pickup\": [\n    ", "\"pickup\": [\n    9"),
            "file, request 1: pickup: a window that ends before it begins");
}

TEST(InstanceFiles, OfOtherDataAreRefusedByName) {
  Rng rng = rng_of(5);
  const Instance instance = random_instance(4, rng);
  const std::string text = encode_instance(instance);
  const auto refusal = [](const std::string& altered, const Data& with) {
    return test::error_text(ErrorCode::kData, [&] { decode_instance(altered, "file", with); });
  };
  const Data other = generate_data({.seed = 77});
  ASSERT_NE(other.city.fingerprint(), data().city.fingerprint());
  EXPECT_EQ(refusal(text, other),
            fmt::format("file: is of city '{}', the data is of city '{}' (`dvrp inspect` names it)",
                        data().city.fingerprint(), other.city.fingerprint()));
  // The same city and other travellers: the row is another trip.
  Data moved = data();
  Trip& trip = moved.travellers.trips[static_cast<size_t>(instance.requests[0].trip)];
  const std::string before = moved.city.name(trip.origin);
  trip.origin = (trip.origin + 1) % moved.city.size();
  EXPECT_EQ(refusal(text, moved), fmt::format("file, request 1: from: '{}', the trip of the data "
                                              "has '{}'",
                                              before, moved.city.name(trip.origin)));
  // Files of before have neither.
  Json old = Json::parse(text), requests = Json::array();
  old.erase("city");
  for (Json request : old["requests"]) {
    request.erase("from");
    request.erase("to");
    requests.push_back(request);
  }
  old["requests"] = requests;
  EXPECT_EQ(decode_instance(old.dump(), "file", data()).requests, instance.requests);
  old["city"] = 3;
  EXPECT_EQ(refusal(old.dump(), data()), "file: 'city' is missing or wrong");
}

TEST(RouteChecker, FindsWhatBreaksARule) {
  Rng rng = rng_of(1);
  Instance instance = draw_instance(data(), 3, rng);
  for (Request& request : instance.requests) {  // time is no trouble
    request.pickup = {100, 1000};
    request.dropoff = {100, 1000};
  }
  const auto fault = [&instance](const Routes& routes) { return fault_of(instance, routes); };
  EXPECT_EQ(fault({{1, 3, 2, 4}, {5, 6}}), "");
  EXPECT_EQ(fault({{1, 3, 2, 4}}), "request 3 is not served");
  EXPECT_EQ(fault({{1, 2, 3}, {5, 6}}), "route 1: request 2 is never dropped off");
  EXPECT_EQ(fault({{1, 2, 3}, {4, 5, 6}}), "route 1: request 2 is never dropped off");
  EXPECT_EQ(fault({{1, 2}, {4, 3, 5, 6}}),
            "route 2: request 2 is dropped off without being on board");
  EXPECT_EQ(fault({{1, 2, 3, 4}, {5, 6, 1, 2}}), "route 2: request 1 is picked up twice");
  EXPECT_EQ(fault({{1, 2, 7}}), "route 1: there is no node 7");
  instance.requests[1].dropoff = {100, 101};
  EXPECT_NE(fault({{1, 2, 3, 4}, {5, 6}}).find("its window ends at 101"), std::string::npos);
}

TEST(RouteChecker, CountsWhoIsOnBoard) {
  Rng rng = rng_of(2);
  Instance instance = draw_instance(data(), 9, rng);
  for (Request& request : instance.requests) request.pickup = request.dropoff = {0, 1400};
  Route route;
  for (int i = 0; i < 9; ++i) route.push_back(Instance::pickup_of(i));
  for (int i = 0; i < 9; ++i) route.push_back(Instance::pickup_of(i) + 1);
  EXPECT_EQ(fault_of(instance, {route}), "route 1: full at request 9");
}

TEST(Solver, FindsTheBestRoutesOfSmallInstances) {
  for (int i = 0; i < 40; ++i) {
    Rng rng = rng_of(100 + i);
    const Instance instance = random_instance(1 + i % 3, rng);
    const Solution solution = solve(instance, {.iterations = 200, .seed = 1});
    EXPECT_EQ(fault_of(instance, solution.routes), "");
    EXPECT_NEAR(solution.cost, best_of_all(instance), 1e-3) << i;
  }
}

TEST(Solver, ItsRoutesKeepAllRules) {
  double inserted = 0, searched = 0;
  for (int i = 0; i < 60; ++i) {
    Rng rng = rng_of(200 + i);
    const Instance instance = random_instance(1 + i % 30, rng);
    const Solution first = solve(instance, {.iterations = 0, .seed = 1});
    const Solution solution = solve(instance, {.iterations = 300, .seed = 1});
    EXPECT_EQ(fault_of(instance, first.routes), "") << i;
    EXPECT_EQ(fault_of(instance, solution.routes), "") << i;
    EXPECT_DOUBLE_EQ(solution.cost, cost_of(instance, solution.routes));
    EXPECT_LE(solution.cost, first.cost + 1e-6);
    inserted += first.cost;
    searched += solution.cost;
  }
  EXPECT_LT(searched, 0.97 * inserted) << "the search is worth its time";
}

// A vehicle for all, and windows that are exactly the seconds at which it comes by.
Instance on_the_second(Rng& rng, int requests, Route& route) {
  Instance instance = draw_instance(data(), requests, rng);
  route = random_route(rng, requests);
  double time = 7200 + rng.below(50'000);
  int before = route.front();
  for (const int node : route) {
    time += instance.seconds(before, node);
    before = node;
    const auto minutes = static_cast<float>(time / 60);
    Request& request = instance.requests[static_cast<size_t>(Instance::request_of(node))];
    (Instance::is_pickup(node) ? request.pickup : request.dropoff) = {minutes, minutes};
  }
  return instance;
}

TEST(Solver, IsInTimeToTheSecond) {
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    Rng rng(23, stream_of(Purpose::kTest, static_cast<uint64_t>(i)));
    const int requests = 1 + i % 4;
    Route route;
    Instance instance = on_the_second(rng, requests, route);
    if (i % 2 == 1) instance.limits = {.ride = 600};
    const Routes routes = {route};
    EXPECT_EQ(fault_of(instance, routes), "");
    for (const Solution& found :
         {solve(instance, {.iterations = 20}), improve(instance, routes, 2)}) {
      EXPECT_LE(found.cost, cost_of(instance, routes) + 1e-3);
      EXPECT_EQ(fault_of(instance, found.routes), "");
    }
    // A second less at the end is one too few.
    Window& last =
        instance.requests[static_cast<size_t>(Instance::request_of(route.back()))].dropoff;
    last.early = last.late = static_cast<float>((last.late_s() - 1) / 60);
    EXPECT_NE(fault_of(instance, routes), "");
    if (requests > 1) continue;  // other routes may still do
    EXPECT_FALSE(std::isfinite(solve(instance, {.iterations = 0}).cost));
  }
}

TEST(Solver, DependsOnTheSeedAlone) {
  Rng rng = rng_of(3);
  const Instance instance = random_instance(30, rng);
  const SolveOptions options{.iterations = 200, .seed = 5};
  EXPECT_EQ(solve(instance, options).routes, solve(instance, options).routes);
}

TEST(Solver, SaysWhereARequestCannotBeServed) {
  Rng rng = rng_of(4);
  Instance instance = draw_instance(data(), 3, rng);
  instance.requests[1].dropoff = {0, 1};
  EXPECT_EQ(solve(instance, {}).cost, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace flotilla::dvrp
