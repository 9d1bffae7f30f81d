// The ceiling of a negotiation against all combinations of shifts on small instances; on large ones
// its shifts are accepted, its routes keep all rules, and it saves what negotiations are said to.
#include "flotilla/domains/dvrp/negotiation/ceiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "flotilla/domains/dvrp/data/generate.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {
namespace {

Instance drawn(int customers, int i) {
  Rng rng(17, stream_of(Purpose::kTest, static_cast<uint64_t>(i)));
  return draw_instance(data(), customers, rng);
}

// Requests at about the same time of a day: rides that can be shared, if windows allow it.
Instance crowded(size_t customers, size_t i) {
  Instance day = drawn(30, static_cast<int>(i));
  std::ranges::sort(day.requests, {}, [](const Request& request) { return request.pickup.early; });
  const auto first = day.requests.begin() + static_cast<std::ptrdiff_t>(i % 27);
  day.requests = {first, first + static_cast<std::ptrdiff_t>(customers)};
  return day;
}

// The least cost over all shifts that are accepted, of the requests from `from` on.
double best_of_all(const Instance& asked, Instance& granted, size_t from) {
  if (from == asked.requests.size()) return solve(granted, {.iterations = 60, .seed = 1}).cost;
  double best = best_of_all(asked, granted, from + 1);
  const Request request = asked.requests[from];
  for (int action = 0; action < kActions; ++action) {
    if (action == kNoShift || !trip_of(request).accepted(action)) continue;
    granted.requests[from] = shifted(request, shift_of(action));
    best = std::min(best, best_of_all(asked, granted, from + 1));
  }
  granted.requests[from] = request;
  return best;
}

TEST(Ceilings, AreTheBestOfAllShiftsOfSmallInstances) {
  int saving = 0;
  for (size_t i = 0; i < 30; ++i) {
    const Instance asked = crowded(1 + i % 3, i);
    Instance granted = asked;
    const double best = best_of_all(asked, granted, 0);
    const Ceiling ceiling =
        find_ceiling(asked, data().travellers, {.starts = 2, .iterations = 200, .seed = 1});
    EXPECT_NEAR(ceiling.solution.cost, best, 1e-3) << i;
    saving += best < ceiling.plain.cost - 1e-3;
  }
  EXPECT_GT(saving, 0) << "some shifts must be worth it";
}

TEST(Ceilings, GrantWhatIsAcceptedAndKeepAllRules) {
  double plain = 0, shifted_cost = 0;
  for (int i = 0; i < 6; ++i) {
    const Instance asked = drawn(i < 4 ? 30 : 12, 100 + i);
    const Ceiling ceiling =
        find_ceiling(asked, data().travellers, {.starts = 2, .iterations = 200, .seed = 1});
    ASSERT_EQ(ceiling.actions.size(), asked.requests.size());
    for (size_t r = 0; r < asked.requests.size(); ++r) {
      const int action = ceiling.actions[r];
      EXPECT_TRUE(action == kNoShift || trip_of(asked.requests[r]).accepted(action));
      EXPECT_EQ(ceiling.granted.requests[r], shifted(asked.requests[r], shift_of(action)));
    }
    EXPECT_EQ(fault_of(ceiling.granted, ceiling.solution.routes), "") << i;
    EXPECT_EQ(fault_of(asked, ceiling.plain.routes), "") << i;
    EXPECT_NEAR(ceiling.solution.cost, cost_of(ceiling.granted, ceiling.solution.routes), 1e-9);
    EXPECT_LE(ceiling.solution.cost, ceiling.plain.cost);
    plain += ceiling.plain.cost;
    shifted_cost += ceiling.solution.cost;
  }
  EXPECT_LT(shifted_cost, 0.97 * plain);
}

TEST(Ceilings, AskForNothingInVain) {
  const Instance asked = drawn(30, 150);
  const Ceiling ceiling =
      find_ceiling(asked, data().travellers, {.starts = 1, .iterations = 200, .seed = 1});
  int shifts = 0;
  for (size_t r = 0; r < asked.requests.size(); ++r) {
    if (ceiling.actions[r] == kNoShift) continue;
    ++shifts;
    Instance without = ceiling.granted;
    without.requests[r] = asked.requests[r];
    EXPECT_NE(fault_of(without, ceiling.solution.routes), "") << r;
  }
  EXPECT_GT(shifts, 0);
}

TEST(Ceilings, DependOnTheSeedAlone) {
  const Instance asked = drawn(30, 200);
  const CeilingOptions options{.starts = 2, .iterations = 60, .seed = 3};
  const Ceiling once = find_ceiling(asked, data().travellers, options);
  const Ceiling again = find_ceiling(asked, data().travellers, options);
  EXPECT_EQ(once.actions, again.actions);
  EXPECT_EQ(once.solution.routes, again.solution.routes);
}

TEST(Ceilings, OfTravellersWhoAcceptNothingArePlain) {
  Travellers stubborn = data().travellers;
  for (Trip& trip : stubborn.trips) trip.accepts = {};
  const Instance asked = drawn(10, 300);
  const Ceiling ceiling = find_ceiling(asked, stubborn, {.starts = 2, .iterations = 50, .seed = 1});
  EXPECT_EQ(ceiling.granted.requests, asked.requests);
  EXPECT_EQ(std::ranges::count(ceiling.actions, kNoShift), 10);
  EXPECT_EQ(ceiling.solution.cost, ceiling.plain.cost);
}

TEST(Ceilings, SayWhereARequestCannotBeServed) {
  Travellers stubborn = data().travellers;
  for (Trip& trip : stubborn.trips) trip.accepts = {};
  Instance asked = drawn(3, 400);
  asked.requests[1].dropoff = {0, 1};
  const Ceiling ceiling = find_ceiling(asked, stubborn, {.starts = 1, .iterations = 10, .seed = 1});
  EXPECT_EQ(ceiling.solution.cost, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace flotilla::dvrp
