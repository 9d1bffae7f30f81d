#include "flotilla/report/scale.h"
#include "flotilla/report/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace flotilla::test {
namespace {

using Labels = std::vector<std::string>;

Labels labels(Scale::Kind kind, double low, double high, int count) {
  Labels result;
  for (const Tick& tick : Scale(kind, low, high).ticks(count)) result.push_back(tick.label);
  return result;
}
Labels linear(double low, double high, int count) {
  return labels(Scale::Kind::kLinear, low, high, count);
}

TEST(Ticks, StepsAreOneTwoFive) {
  EXPECT_DOUBLE_EQ(round_step(10, 10), 1);
  EXPECT_DOUBLE_EQ(round_step(10, 9), 2);
  EXPECT_DOUBLE_EQ(round_step(10, 4), 5);
  EXPECT_DOUBLE_EQ(round_step(10, 1), 10);
  EXPECT_DOUBLE_EQ(round_step(0.3, 3), 0.1);
  EXPECT_DOUBLE_EQ(round_step(7e5, 5), 2e5);
}

TEST(Ticks, Labels) {
  EXPECT_EQ(linear(0, 1, 5), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(linear(-1.1, 1.1, 5), (Labels{"-1.0", "-0.5", "0", "0.5", "1.0"}));
  EXPECT_EQ(linear(0, 500, 5), (Labels{"0", "100", "200", "300", "400", "500"}));
  EXPECT_EQ(linear(-1600, -150, 4), (Labels{"-1500", "-1000", "-500"}));
  EXPECT_EQ(linear(0, 1e6, 5), (Labels{"0", "200 k", "400 k", "600 k", "800 k", "1 M"}));
  EXPECT_EQ(linear(0, 2e6, 4), (Labels{"0", "500 k", "1 M", "1.5 M", "2 M"}));
  EXPECT_EQ(linear(0, 9000, 3), (Labels{"0", "5000"}));
  EXPECT_EQ(linear(0, 2e-4, 2), (Labels{"0", "0.0001", "0.0002"}));
  EXPECT_EQ(linear(0, 3e-4, 6), (Labels{"0", "5e-5", "1e-4", "1.5e-4", "2e-4", "2.5e-4", "3e-4"}));
  EXPECT_EQ(linear(0, 4e18, 2), (Labels{"0", "2e18", "4e18"}));
}

TEST(Ticks, OfALogScale) {
  EXPECT_EQ(labels(Scale::Kind::kLog, 0.05, 2000, 5), (Labels{"0.1", "1", "10", "100", "1000"}));
  EXPECT_EQ(labels(Scale::Kind::kLog, 1, 20, 5), (Labels{"1", "2", "5", "10", "20"}));
  EXPECT_EQ(labels(Scale::Kind::kLog, 2.1, 2.9, 4), linear(2.1, 2.9, 4));
  EXPECT_LE(Scale(Scale::Kind::kLog, 1e-200, 1e200).ticks(5).size(), 12u);
}

// Whatever the range: some ticks, not many, all inside, ascending, with labels that differ.
TEST(Ticks, HoldForEveryRange) {
  for (const double size :
       {1e-310, 1e-300, 1e-200, 1e-9, 0.3, 1.0, 7.77, 1e5, 3e14, 1e200, 1e308}) {
    for (const double offset : {0.0, -0.5, 1.0, -3.0, 1e6, -1e8}) {
      for (const int count : {1, 2, 5, 8}) {
        const Scale scale(Scale::Kind::kLinear, size * offset, size * (offset + 1));
        const std::vector<Tick> ticks = scale.ticks(count);
        const double slack = 1e-6 * (scale.high() - scale.low());
        ASSERT_LE(ticks.size(), static_cast<size_t>(count) + 1) << size << " " << offset;
        for (size_t i = 0; i < ticks.size(); ++i) {
          ASSERT_GE(ticks[i].value, scale.low() - slack);
          ASSERT_LE(ticks[i].value, scale.high() + slack);
          ASSERT_TRUE(i == 0 || ticks[i].value > ticks[i - 1].value);
          ASSERT_TRUE(i == 0 || ticks[i].label != ticks[i - 1].label) << ticks[i].label;
        }
      }
    }
  }
}

TEST(Scale, PlacesNumbers) {
  const Scale linear(Scale::Kind::kLinear, -10, 30);
  EXPECT_DOUBLE_EQ(linear.place(-10), 0);
  EXPECT_DOUBLE_EQ(linear.place(0), 0.25);
  EXPECT_DOUBLE_EQ(linear.place(30), 1);
  EXPECT_TRUE(std::isnan(linear.place(kNaN)));
  EXPECT_TRUE(std::isnan(linear.place(HUGE_VAL)));
  const Scale log(Scale::Kind::kLog, 0.01, 100);
  EXPECT_DOUBLE_EQ(log.place(1), 0.5);
  EXPECT_TRUE(std::isnan(log.place(0)));
  EXPECT_TRUE(std::isnan(log.place(-1)));
}

TEST(Scale, AConstantHasRoomAroundIt) {
  const Scale some(Scale::Kind::kLinear, 500, 500);
  EXPECT_DOUBLE_EQ(some.low(), 450);
  EXPECT_DOUBLE_EQ(some.high(), 550);
  EXPECT_DOUBLE_EQ(Scale(Scale::Kind::kLinear, 0, 0).high(), 1);
  EXPECT_DOUBLE_EQ(Scale(Scale::Kind::kLinear, -3, -3).place(-3), 0.5);
  EXPECT_DOUBLE_EQ(Scale(Scale::Kind::kLog, 8, 8).place(8), 0.5);
}

TEST(Scale, HugeNumbersStayFinite) {
  const Scale scale = Scale(Scale::Kind::kLinear, -1.7e308, 1.7e308).widened(0.05);
  EXPECT_DOUBLE_EQ(scale.place(0), 0.5);
  EXPECT_LE(scale.place(1.7e308), 1);
  EXPECT_GT(scale.place(1.7e308), 0.9);
}

TEST(Scale, ExtentLeavesOutWhatIsNotFinite) {
  const std::vector<double> values = {kNaN, 3, -HUGE_VAL, -2, kNaN};
  ASSERT_TRUE(extent(values));
  EXPECT_EQ(extent(values)->low, -2);
  EXPECT_EQ(extent(values)->high, 3);
  EXPECT_FALSE(extent(std::vector<double>{kNaN}));
  EXPECT_FALSE(extent({}));
}

}  // namespace
}  // namespace flotilla::test
