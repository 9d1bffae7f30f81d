// Shifts that a day's routes do not need: none is left that could be smaller, and nothing else
// changes.
#include "flotilla/domains/dvrp/negotiation/trim.h"

#include <gtest/gtest.h>

#include "flotilla/domains/dvrp/routing/solver.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {
namespace {

// Everybody is asked for the largest shift that he accepts.
Instance most_shifted(Instance day, Granting granting) {
  for (Request& request : day.requests) {
    const Request asked = request;
    int most = 0;
    for (int action = 0; action < kActions; ++action) {
      if (!trip_of(asked).accepted(action) || minutes_of(action) <= most) continue;
      most = minutes_of(action);
      request = shifted(asked, shift_of(action), granting);
    }
  }
  return day;
}

int minutes(const std::vector<uint8_t>& actions) {
  int sum = 0;
  for (const uint8_t action : actions) sum += minutes_of(action);
  return sum;
}

// Days on which everybody was asked for as much as he accepts.
class TrimTest : public testing::TestWithParam<Granting> {};
INSTANTIATE_TEST_SUITE_P(MoveAndWiden, TrimTest,
                         testing::Values(Granting::kMove, Granting::kWiden));

TEST_P(TrimTest, LeavesTheSmallestShiftsThatTheRoutesCanDoWith) {
  const Granting granting = GetParam();
  int before = 0, after = 0;
  for (int i = 0; i < 10; ++i) {
    Rng rng(23, stream_of(Purpose::kTest, static_cast<uint64_t>(i)));
    const Instance asked = draw_instance(data(), 8 + i, rng);
    const Instance granted = most_shifted(asked, granting);
    const Routes routes = solve(granted, {.iterations = 200, .seed = 1}).routes;
    ASSERT_EQ(fault_of(granted, routes), "");
    const Trimmed day = trim(asked, granted, data().travellers, routes, granting);
    EXPECT_EQ(fault_of(day.granted, routes), "") << i;
    for (size_t r = 0; r < asked.requests.size(); ++r) {
      const Request& request = asked.requests[r];
      const int action = day.actions[r];
      EXPECT_TRUE(action == kNoShift || trip_of(request).accepted(action));
      EXPECT_EQ(day.granted.requests[r], shifted(request, shift_of(action), granting));
      for (int other = 0; other < kActions; ++other) {
        const bool accepted = other == kNoShift || trip_of(request).accepted(other);
        if (!accepted || minutes_of(other) >= minutes_of(action)) continue;
        Instance less = day.granted;
        less.requests[r] = shifted(request, shift_of(other), granting);
        EXPECT_NE(fault_of(less, routes), "") << i << ": " << r << " needs " << other << " only";
      }
    }
    const Trimmed again = trim(asked, day.granted, data().travellers, routes, granting);
    EXPECT_EQ(again.actions, day.actions) << "nothing is left to trim";
    const Routes none;  // can do with nothing
    before += minutes(trim(asked, granted, data().travellers, none, granting).actions);
    after += minutes(day.actions);
  }
  EXPECT_LT(after, before);
  EXPECT_GT(after, 0) << "routes of shifted requests need some of the shifts";
}

TEST(Trim, LeavesADayWithoutShiftsAsItIs) {
  Rng rng(29, stream_of(Purpose::kTest, 1));
  const Instance asked = draw_instance(data(), 12, rng);
  const Routes routes = solve(asked, {.iterations = 100, .seed = 1}).routes;
  const Trimmed day = trim(asked, asked, data().travellers, routes);
  EXPECT_EQ(day.granted.requests, asked.requests);
  EXPECT_EQ(minutes(day.actions), 0);
}

}  // namespace
}  // namespace flotilla::dvrp
