// Minutes on board, worked out by hand.
#include "flotilla/domains/dvrp/routing/rides.h"

#include <gtest/gtest.h>

#include "unit/domains/dvrp/line_city.h"

namespace flotilla::dvrp {
namespace {

TEST(Rides, AreFromThePickupToTheDropOff) {
  const City city = line_city();
  const Window whole{0, kDay};
  const Instance instance{
      .city = &city,
      .requests = {from_to(1, 3, {100, 200}, whole), from_to(2, 3, {130, 200}, whole)}};
  // Alone: at once from a to c.
  const Rides alone = rides_of(instance, {{1, 2}, {3, 4}});
  EXPECT_DOUBLE_EQ(alone.on_board, 20 + 10);
  EXPECT_DOUBLE_EQ(alone.direct, 20 + 10);
  EXPECT_EQ(alone.requests, 2);
  // Shared: at a at 100, at b at 110, where it waits for 130, at c at 140.
  const Rides shared = rides_of(instance, {{1, 3, 2, 4}});
  EXPECT_DOUBLE_EQ(shared.on_board, 40 + 10);
  EXPECT_DOUBLE_EQ(shared.direct, 30);
}

TEST(Rides, IncludeTheWaitBeforeADropOff) {
  const City city = line_city();
  const Instance instance{.city = &city, .requests = {from_to(1, 2, {50, 60}, {90, 120})}};
  EXPECT_DOUBLE_EQ(rides_of(instance, {{1, 2}}).on_board, 40);
}

}  // namespace
}  // namespace flotilla::dvrp
