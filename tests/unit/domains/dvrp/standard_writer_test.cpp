// Requests of a city as standard instances, and the travel times beside them: what is read back is
// what was written, to the second.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "flotilla/domains/dvrp/routing/solver.h"
#include "flotilla/domains/dvrp/standard/checker.h"
#include "flotilla/domains/dvrp/standard/reader.h"
#include "flotilla/domains/dvrp/standard/rides.h"
#include "flotilla/domains/dvrp/standard/search.h"
#include "flotilla/domains/dvrp/standard/times.h"
#include "flotilla/domains/dvrp/standard/writer.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp::standard {
namespace {

using flotilla::test::error_text;

Instance asked(int customers, uint64_t seed) {
  Rng rng(seed, stream_of(Purpose::kEnv, 0));
  return draw_instance(data(), customers, rng);
}

Instance drawn(int customers, uint64_t seed) {
  Instance instance = asked(customers, seed);
  for (size_t k = 0; k < instance.requests.size(); k += 2) {
    instance.requests[k] = shifted(instance.requests[k], {.pickup = 10, .dropoff = 20});
  }
  return instance;
}

Problem read_back(const Instance& instance) {
  const std::string rides = rides_text(instance);
  return read_standard(cordeau_text(instance), "day.txt",
                       NamedText{times_text(instance), "day.times"},
                       rides.empty() ? std::nullopt : std::optional(NamedText{rides, "day.rides"}));
}

TEST(StandardWriter, WhatIsReadBackIsTheSameDay) {
  const Instance instance = drawn(8, 3);
  const Problem problem = read_back(instance);
  ASSERT_EQ(problem.requests(), 8);
  EXPECT_EQ(problem.vehicles, 8);
  EXPECT_EQ(problem.seats, kCapacity);
  EXPECT_EQ(problem.back_latest, 86'400);
  for (int node = 0; node < instance.nodes(); ++node) {  // both number them by request
    const Stop& stop = problem.stop(node);
    const Window window = instance.window(node);
    EXPECT_EQ(stop.earliest, static_cast<double>(window.early) * 60);
    EXPECT_EQ(stop.latest, static_cast<double>(window.late) * 60);
    EXPECT_EQ(stop.load, node == 0 ? 0 : Instance::is_pickup(node) ? 1 : -1);
    for (int to = 0; to < instance.nodes(); ++to) {
      EXPECT_EQ(problem.distance(node, to), static_cast<double>(instance.city->seconds(
                                                instance.cell(node), instance.cell(to))));
    }
  }
}

TEST(StandardWriter, LimitsOfRidesAreReadBack) {
  Instance instance = asked(8, 3);  // moved windows may break limits by themselves
  EXPECT_EQ(rides_text(instance), "");
  EXPECT_EQ(read_back(instance).ride_limit, 86'400);
  instance.limits.ride = 40;  // of all: the instance has it
  EXPECT_EQ(rides_text(instance), "");
  EXPECT_EQ(read_back(instance).ride_limit, 2400);
  instance.limits.excess = 12.25;
  const Problem problem = read_back(instance);
  double longest = 0;
  for (int dropoff = 2; dropoff < instance.nodes(); dropoff += 2) {
    const double direct = instance.seconds(dropoff - 1, dropoff);
    EXPECT_EQ(problem.longest_ride(dropoff), std::min(2400.0, direct + 735));
    longest = std::max(longest, problem.longest_ride(dropoff));
  }
  EXPECT_EQ(problem.ride_limit, longest) << "for who reads the instance alone";
}

// Limits that are reached: routes without them break them.
TEST(StandardWriter, BothSolversAndBothCheckersAgreeOnLimits) {
  Instance instance = asked(12, 1);
  const Solution free = solve(instance, {.iterations = 2000});
  instance.limits.excess = 2;
  const Problem problem = read_back(instance);
  const auto listed = [](const Routes& routes) {
    std::vector<Route> list;
    for (const dvrp::RouteView route : routes) list.emplace_back(route.begin(), route.end());
    return list;
  };
  EXPECT_NE(dvrp::fault_of(instance, free.routes), "");
  EXPECT_NE(fault_of(problem, listed(free.routes)), "");
  const Solution ours = solve(instance, {.iterations = 2000});
  EXPECT_EQ(fault_of(problem, listed(ours.routes)), "");
  const Found found = search(problem, {.iterations = 2000});
  EXPECT_NEAR(found.distance, 60 * ours.cost, 0.01);
  Routes theirs;
  for (const Route& route : found.routes) theirs.add(route);
  EXPECT_EQ(dvrp::fault_of(instance, theirs), "");
}

TEST(StandardWriter, BothSolversAndBothCheckersAgree) {
  for (const uint64_t seed : {1, 2, 3}) {
    const Instance instance = drawn(12, seed);
    const Problem problem = read_back(instance);
    const Solution ours = solve(instance, {.iterations = 2000});
    std::vector<Route> routes;
    for (const dvrp::RouteView route : ours.routes) routes.emplace_back(route.begin(), route.end());
    EXPECT_EQ(fault_of(problem, routes), "");
    double seconds = 0;
    for (const Route& route : routes) seconds += length_of(problem, route);
    EXPECT_NEAR(seconds, 60 * ours.cost, 0.01);  // single precision of minutes
    const Found found = search(problem, {.iterations = 2000});
    EXPECT_EQ(std::llround(found.distance), std::llround(seconds)) << "both are small enough";
    Routes theirs;
    for (const Route& route : found.routes) theirs.add(route);
    EXPECT_EQ(dvrp::fault_of(instance, theirs), "");
  }
}

TEST(StandardTimes, LieBesideTheInstance) {
  EXPECT_EQ(times_path("a2-16.txt"), "a2-16.times");
  EXPECT_EQ(times_path("out.d/day-00001.after.txt"), "out.d/day-00001.times");
  EXPECT_EQ(times_path("/tmp/plain"), "/tmp/plain.times");
}

TEST(StandardTimes, WhatIsWrongIsNamed) {
  const std::string instance =
      "1 2 480 3 480\n0 0 0 0 0 0 480\n1 1 0 0 1 0 480\n2 0 2 0 -1 0 480\n";
  const auto read = [&](const std::string& times) {
    return read_standard(instance, "file", NamedText{times, "file.times"});
  };
  const auto refused = [&](const std::string& times) {
    return error_text(ErrorCode::kData, [&] { read(times); });
  };
  EXPECT_EQ(read("0 1 2\n30 0 40\n50 60.5 0\n").distance(2, 1), 60.5);
  EXPECT_EQ(refused("0 1\n1 0\n"), "file.times: 2 rows, the instance has 3 stops");
  EXPECT_EQ(refused("0 1 2\n1 0\n1 2 0\n"),
            "file.times, line 2: 2 times, the instance has 3 stops");
  EXPECT_EQ(
      refused("0 1 2\n1 0 3\n1 -2 0\n"),
      "file.times, line 3: column 2: a time of -2, where one that is not negative is expected");
  EXPECT_EQ(refused("0 1 2\n1 4 3\n1 2 0\n"),
            "file.times, line 2: column 2: a time of 4, where 0 from a stop to itself is expected");
  EXPECT_EQ(refused("0 1 2\n1 0 x\n1 2 0\n"), "file.times, line 2: column 3: 'x' is no number");
  EXPECT_EQ(refused("0 500 2\n1 0 3\n1 2 0\n"), "file: cannot be served, even alone: pickup 1");
}

TEST(StandardRides, WhatIsWrongIsNamed) {
  EXPECT_EQ(rides_path("out.d/day-00001.after.txt"), "out.d/day-00001.rides");
  const std::string instance =
      "1 2 480 3 480\n0 0 0 0 0 0 480\n1 1 0 0 1 0 480\n2 1 2 0 -1 0 480\n";
  const auto read = [&](const std::string& rides) {
    return read_standard(instance, "file", std::nullopt, NamedText{rides, "file.rides"});
  };
  const auto refused = [&](const std::string& rides) {
    return error_text(ErrorCode::kData, [&] { read(rides); });
  };
  EXPECT_EQ(read("2.5\n").longest_ride(2), 2.5);
  EXPECT_EQ(read("500\n").longest_ride(2), 480);
  EXPECT_EQ(refused("3\n4\n"), "file.rides: 2 lines, the instance has 1 request");
  EXPECT_EQ(refused("3 4\n"), "file.rides, line 1: expected one number, got 2");
  EXPECT_NE(refused("-3\n"), "");
  EXPECT_EQ(refused("1.5\n"), "file: cannot be served, even alone: pickup 1");
}

}  // namespace
}  // namespace flotilla::dvrp::standard
