// Standard instances: their files, schedules beside an independent checker, the cheapest place and
// the search beside brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/core/file.h"
#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/standard/checker.h"
#include "flotilla/domains/dvrp/standard/plan.h"
#include "flotilla/domains/dvrp/standard/reader.h"
#include "flotilla/domains/dvrp/standard/search.h"
#include "support/error_text.h"
#include "support/source_dir.h"
#include "unit/domains/dvrp/route_support.h"

namespace flotilla::dvrp::standard {
namespace {

using flotilla::test::error_text;

const char* const kCordeau =
    "2 4 480 3 30\n"
    " 0 0 0 0 0 0 480\n"
    " 1 1 0 3 1 0 1440\n"
    " 2 0 2 3 2 100 115\n"
    " 3 4 4 3 -1 50 65\n"
    " 4 0 5 3 -2 0 1440\n";

Problem read(const std::string& text) { return read_standard(text, "file"); }

TEST(StandardFiles, OfCordeau) {
  const Problem open = read(kCordeau);
  const Problem closed = read(std::string(kCordeau) + " 5 0 0 0 0 10 400\n");
  for (const Problem& problem : {open, closed}) {
    EXPECT_EQ(problem.requests(), 2);
    EXPECT_EQ(problem.vehicles, 2);
    EXPECT_EQ(problem.seats, 3);
    EXPECT_EQ(problem.route_limit, 480);
    EXPECT_EQ(problem.ride_limit, 30);
    EXPECT_FALSE(problem.vehicles_first);
    std::vector<int> ids;
    for (const Stop& stop : problem.stops) ids.push_back(stop.id);
    EXPECT_EQ(ids, (std::vector<int>{0, 1, 3, 2, 4}));
    EXPECT_EQ(problem.stop(3).load, 2);
    EXPECT_EQ(problem.stop(3).earliest, 100);
    EXPECT_EQ(problem.stop(3).latest, 115);
    EXPECT_DOUBLE_EQ(problem.distance(1, 2), 5);
  }
  EXPECT_EQ(open.back_latest, 480);
  EXPECT_EQ(closed.back_earliest, 10);
  EXPECT_EQ(closed.back_latest, 400);
}

TEST(StandardFiles, OfLiAndLim) {
  const Problem problem = read(
      "25 200 1\n"
      "0 40 50 0 0 1236 0 0 0\n"
      "1 45 68 -10 912 967 90 2 0\n"
      "2 45 70 10 825 870 90 0 1\n");
  EXPECT_TRUE(problem.vehicles_first);
  EXPECT_EQ(problem.requests(), 1);
  EXPECT_EQ(problem.stop(1).id, 2);
  EXPECT_EQ(problem.stop(2).id, 1);
  EXPECT_EQ(problem.stop(1).service, 90);
  EXPECT_EQ(problem.ride_limit, kNoLimit);
  EXPECT_EQ(problem.seats, 200);
}

TEST(StandardFiles, WhatIsWrongIsNamed) {
  const auto refused = [](const std::string& text) {
    return error_text(ErrorCode::kData, [&] { read(text); });
  };
  const std::string head = "2 2 480 3 30\n0 0 0 0 0 0 480\n";
  const std::pair<std::string, std::string> cases[] = {
      {"1 2\n0 0",
       "file, line 1: expected 5 numbers (dial-a-ride by Cordeau) or 3 (pickup and "
       "delivery by Li and Lim), got 2"},
      {"2 2 480 3 30\n", "file: has no stops"},
      {"2 2 480 3 30\n0 0 0 0 0 0 480\n", "file: has no requests"},
      {"0 2 480 3 30\n0 0 0 0 0 0 480\n",
       "file, line 1: vehicles: expected a whole number from 1 to 100000, got 0"},
      {head + "1 1 x 3 1 0 10\n", "file, line 3: column 3: 'x' is no number"},
      {head + "1 1 0 3 1 0\n", "file, line 3: expected 7 numbers, got 6"},
      {head + "1 1 0 3 1 20 10\n2 1 0 3 -1 0 10\n",
       "file, line 3: the window ends at 10, before it begins at 20"},
      {head + "1 1 0 3 4 0 10\n2 1 0 3 -4 0 90\n",
       "file, line 3: a load of 4, vehicles have 3 seats"},
      {head + "1 1 0 3 1 0 10\n2 1 0 3 -2 0 90\n",
       "file, line 3: loads 1 and -2: what gets on must get off"},
      {head + "2 1 0 3 1 0 10\n1 1 0 3 -1 0 90\n", "file, line 3: id 2: expected 1"},
      {head + "1 1 0 3 1 0 10\n2 50 0 3 -1 0 90\n", "file: cannot be served, even alone: pickup 1"},
      {head + "1 1 0 -3 1 0 10\n", "file, line 3: service time: expected at least 0, got -3"},
      {"25 200 1\n0 0 0 0 0 99 0 0 0\n1 1 1 5 0 99 0 0 2\n2 1 1 -5 0 99 0 0 1\n",
       "file, line 3: stop 2 does not name it in turn"}};
  for (const auto& [text, message] : cases) EXPECT_EQ(refused(text), message) << text;
  EXPECT_TRUE(is_standard("\n 2 3"));
  EXPECT_FALSE(is_standard(" {\"format\": 1}"));
  EXPECT_FALSE(is_standard(""));
}

// Small, tight and random: about half of the routes can be driven.
Problem random_problem(Rng& rng, int requests) {
  Problem problem;
  problem.vehicles = 2;
  problem.seats = 2 + static_cast<int>(rng.below(2));
  problem.route_limit = rng.chance(0.5) ? kNoLimit : 60 + 60 * rng.uniform();
  problem.ride_limit = rng.chance(0.3) ? kNoLimit : 10 + 15 * rng.uniform();
  problem.back_latest = 200;
  problem.stops.push_back({.id = 0, .latest = 200});
  for (int i = 0; i < 2 * requests; ++i) {
    Stop stop{.id = i + 1, .x = 10 * rng.uniform(), .y = 10 * rng.uniform(), .service = 3};
    stop.load = i % 2 == 0 ? 1 : -1;
    stop.earliest = rng.chance(0.5) ? 100 * rng.uniform() : 0;
    stop.latest = rng.chance(0.5) ? stop.earliest + 15 + 30 * rng.uniform() : 200;
    problem.stops.push_back(stop);
  }
  problem.measure();
  return problem;
}

void expect_sound(const Problem& problem, const Route& route, std::span<const double> times) {
  const auto time_of = [&](int stop) {
    return times[static_cast<size_t>(std::ranges::find(route, stop) - route.begin()) + 1];
  };
  int before = 0;
  for (size_t i = 0; i < route.size(); ++i) {
    const Stop& stop = problem.stop(route[i]);
    EXPECT_GE(times[i + 1], stop.earliest - kTolerance);
    EXPECT_LE(times[i + 1], stop.latest + kTolerance);
    EXPECT_GE(times[i + 1], times[i] + problem.stop(before).service +
                                problem.distance(before, route[i]) - kTolerance);
    before = route[i];
    if (Problem::is_pickup(route[i])) continue;
    EXPECT_LE(time_of(route[i]) - time_of(route[i] - 1) - problem.stop(route[i] - 1).service,
              problem.longest_ride(route[i]) + kTolerance);
  }
  EXPECT_LE(times.back() - times.front(), problem.route_limit + kTolerance);
}

TEST(StandardSchedules, AreThereExactlyWhereTheCheckerFindsNoFault) {
  Rng rng(1, stream_of(Purpose::kTest, 0));
  int feasible = 0, delayed = 0;
  constexpr int kTries = 20'000;
  for (int i = 0; i < kTries; ++i) {
    const int requests = 1 + static_cast<int>(rng.below(4));
    Problem problem = random_problem(rng, requests);
    for (Stop& stop : problem.stops) {
      if (rng.chance(0.3)) stop.longest_ride = 8 + 15 * rng.uniform();
    }
    const Route route = random_route(rng, requests);
    Scheduler scheduler(problem);
    const bool possible = scheduler.is_feasible(route);
    ASSERT_EQ(possible, fault_of(problem, {route}).empty()) << "try " << i;
    if (!possible) continue;
    ++feasible;
    expect_sound(problem, route, scheduler.times());
    Problem loose = problem;
    loose.ride_limit = loose.route_limit = kNoLimit;
    for (Stop& stop : loose.stops) stop.longest_ride = kNoLimit;
    Scheduler early(loose);
    early.is_feasible(route);
    delayed += early.times()[1] < scheduler.times()[1] ? 1 : 0;
  }
  EXPECT_GT(feasible, kTries / 20);
  EXPECT_GT(delayed, kTries / 200) << "departures that were put off to shorten rides";
}

TEST(StandardPlaces, TheBestIsTheCheapestOfAll) {
  Rng rng(2, stream_of(Purpose::kTest, 0));
  int found = 0;
  for (int i = 0; i < 3000; ++i) {
    const int others = static_cast<int>(rng.below(4));
    const Problem problem = random_problem(rng, others + 1);
    const Route route = random_route(rng, others);
    Scheduler scheduler(problem);
    if (!scheduler.is_feasible(route)) continue;
    Vehicle vehicle;
    vehicle.set(problem, route, 1);
    Route room;
    const Place place = vehicle.best_place(problem, scheduler, others, room);
    double best = kNoLimit;
    const int pickup = Problem::pickup_of(others);
    for (size_t p = 0; p <= route.size(); ++p) {
      for (size_t d = p; d <= route.size(); ++d) {
        Route with = route;
        with.insert(with.begin() + static_cast<std::ptrdiff_t>(d), pickup + 1);
        with.insert(with.begin() + static_cast<std::ptrdiff_t>(p), pickup);
        if (!scheduler.is_feasible(with)) continue;
        best = std::min(best, length_of(problem, with) - length_of(problem, route));
      }
    }
    if (best == kNoLimit) {
      EXPECT_EQ(place.extra, kNoLimit);
    } else {
      EXPECT_NEAR(place.extra, best, 1e-6);
      ++found;
    }
  }
  EXPECT_GT(found, 300);
}

// The least distance of all ways to serve everybody, by trying them.
class BruteForce {
 public:
  explicit BruteForce(const Problem& problem)
      : problem_(problem),
        scheduler_(problem),
        state_(static_cast<size_t>(problem.requests()), 0) {}

  double best() {
    extend(0, 0);
    return best_;
  }

 private:
  void extend(int vehicle, double before) {
    const double length = length_of(problem_, route_);
    if (before + length >= best_) return;
    bool open = false, all = true;
    for (const int state : state_) {
      open |= state == 1;
      all &= state == 2;
    }
    if (!open && !route_.empty()) {
      if (!scheduler_.is_feasible(route_)) return;
      if (all) best_ = before + length;
      if (vehicle + 1 < problem_.vehicles) {
        const Route kept = std::exchange(route_, {});
        extend(vehicle + 1, before + length);
        route_ = kept;
      }
    }
    for (size_t r = 0; r < state_.size(); ++r) {
      if (state_[r] == 2) continue;
      route_.push_back(Problem::pickup_of(static_cast<int>(r)) + state_[r]);
      ++state_[r];
      extend(vehicle, before);
      --state_[r];
      route_.pop_back();
    }
  }

  const Problem& problem_;
  Scheduler scheduler_;
  std::vector<int> state_;  // by request: waits, on board, served
  Route route_;
  double best_ = kNoLimit;
};

TEST(StandardSearch, ServesAllOfSmallOnesAndFindsTheOptimum) {
  Rng rng(3, stream_of(Purpose::kTest, 0));
  int solved = 0;
  for (int i = 0; i < 400; ++i) {
    const Problem problem = random_problem(rng, 4);
    const double best = BruteForce(problem).best();
    const Found found = search(problem, {.iterations = 300});
    if (best == kNoLimit) {
      EXPECT_FALSE(found.bank.empty());
      continue;
    }
    ++solved;
    EXPECT_TRUE(found.bank.empty()) << "problem " << i;
    EXPECT_EQ(fault_of(problem, found.routes), "");
    if (i >= 40) continue;
    EXPECT_NEAR(found.distance, best, 1e-6) << "problem " << i;
  }
  EXPECT_GT(solved, 50);
}

TEST(StandardSearch, ByIterationsItIsDeterministic) {
  const std::string path = flotilla::test::source_dir() + "/tests/golden/darp/a2-16.txt";
  const Problem problem = read_standard(read_whole_file(path, 1 << 20), path);
  const Found one = search(problem, {.iterations = 500, .seed = 5});
  const Found same = search(problem, {.iterations = 500, .seed = 5});
  EXPECT_EQ(one.routes, same.routes);
  EXPECT_EQ(one.iterations, 500);
  EXPECT_EQ(fault_of(problem, one.routes), "");
  EXPECT_LT(one.distance, 294.25 * 1.01);
}

TEST(StandardSearch, FewerVehiclesComeFirst) {
  Rng rng(4, stream_of(Purpose::kTest, 0));
  Problem problem = random_problem(rng, 6);
  problem.route_limit = problem.ride_limit = kNoLimit;
  for (Stop& stop : problem.stops) {
    stop.earliest = 0;
    stop.latest = 500;
  }
  problem.back_latest = 500;
  problem.vehicles = 6;
  problem.vehicles_first = true;
  EXPECT_EQ(search(problem, {.iterations = 400}).routes.size(), 1u);
}

TEST(StandardChecker, NamesWhatIsWrong) {
  const Problem problem = read(kCordeau);
  const auto fault = [&](const std::vector<Route>& routes) { return fault_of(problem, routes); };
  EXPECT_EQ(fault({{1, 2}, {3, 4}}), "");
  EXPECT_EQ(fault({{1, 2}}), "stop 2 is not served");
  EXPECT_EQ(fault({{1, 2}, {3, 4}, {1, 2}}), "route 3: stop 1 comes twice");
  EXPECT_EQ(fault({{2, 1}, {3, 4}}), "route 1: stop 3 comes before its pickup");
  EXPECT_EQ(fault({{1}, {3, 4}}), "route 1: what gets on at stop 1 never gets off");
  EXPECT_EQ(fault({{3, 4, 1, 2}}), "route 1: no times keep all windows and limits");
  EXPECT_EQ(fault({{7, 2}}), "route 1: a stop that is not there");
  Problem one = problem;
  one.vehicles = 1;
  EXPECT_EQ(fault_of(one, {{1, 2}, {3, 4}}), "2 routes for 1 vehicle");
  one.seats = 1;
  EXPECT_EQ(fault_of(one, {{1, 2}, {3, 4}}), "route 2: 2 on board at stop 2, in 1 seat");
}

}  // namespace
}  // namespace flotilla::dvrp::standard
