#include "flotilla/report/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace flotilla::test {
namespace {

using Numbers = std::vector<double>;

// Equal, and missing at the same places.
void expect_same(const Numbers& got, const Numbers& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else {
      EXPECT_DOUBLE_EQ(got[i], expected[i]) << i;
    }
  }
}

// Noise with a few peaks one point wide.
Curve noisy(size_t size) {
  Curve curve;
  for (size_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i);
    curve.add(x, std::sin(x * 12.9898) + 0.001 * x);
  }
  curve.y[size / 3] = 1e6;
  curve.y[size / 2] = -1e6;
  return curve;
}

TEST(Thinned, KeepsExtremesAndEnds) {
  const Curve curve = noisy(100'000);
  const Curve thin = thinned(curve, 200);
  EXPECT_LE(thin.size(), 800u);
  EXPECT_GE(thin.size(), 400u);
  EXPECT_EQ(thin.x.front(), curve.x.front());
  EXPECT_EQ(thin.y.front(), curve.y.front());
  EXPECT_EQ(thin.x.back(), curve.x.back());
  EXPECT_EQ(thin.y.back(), curve.y.back());
  EXPECT_TRUE(std::ranges::is_sorted(thin.x));
  for (const size_t peak : {curve.size() / 3, curve.size() / 2}) {
    const auto at = std::ranges::find(thin.x, curve.x[peak]);
    ASSERT_NE(at, thin.x.end());
    EXPECT_EQ(thin.y[static_cast<size_t>(at - thin.x.begin())], curve.y[peak]);
  }
}

// The definition: in every column the lowest and the highest are what they were.
TEST(Thinned, KeepsTheExtremesOfEveryColumn) {
  const Curve curve = noisy(10'000);
  constexpr size_t kBuckets = 50;
  const auto extremes = [](const Curve& of) {
    std::vector<std::pair<double, double>> result(kBuckets, {1e300, -1e300});
    for (size_t i = 0; i < of.size(); ++i) {
      auto& [low, high] = result[std::min(kBuckets - 1, static_cast<size_t>(of.x[i] / 9999 * 50))];
      low = std::min(low, of.y[i]);
      high = std::max(high, of.y[i]);
    }
    return result;
  };
  EXPECT_EQ(extremes(thinned(curve, kBuckets)), extremes(curve));
}

TEST(Thinned, ShortCurvesStayAsTheyAre) {
  const Curve curve = {{1, 2, 3}, {4, kNaN, 6}};
  expect_same(thinned(curve, 1).y, curve.y);
  EXPECT_TRUE(thinned({}, 10).empty());
}

TEST(Thinned, ALongGapStaysAndTheRestIsBounded) {
  Curve curve = noisy(100'000);
  for (size_t i = 20'000; i < 40'000; ++i) curve.y[i] = kNaN;
  for (size_t i = 50'000; i < 100'000; i += 2) curve.y[i] = kNaN;  // every other one: no gap
  const Curve thin = thinned(curve, 200);
  EXPECT_LE(thin.size(), 1000u);
  for (size_t i = 0; i < thin.size(); ++i) {
    EXPECT_TRUE(!std::isnan(thin.y[i]) || (thin.x[i] >= 20'000 && thin.x[i] < 40'000));
  }
  EXPECT_GE(std::ranges::count_if(thin.y, [](double y) { return std::isnan(y); }), 35);
}

TEST(Thinned, AllAtOnePlace) {
  const Curve curve = {Numbers(1000, 7.0), Numbers(1000, 1.0)};
  EXPECT_LE(thinned(curve, 10).size(), 4u);
}

TEST(Means, Centred) {
  expect_same(centred_mean(Numbers{1, 2, 6, 3, 4}, 3), {1.5, 3, 11.0 / 3, 13.0 / 3, 3.5});
  expect_same(centred_mean(Numbers{1, 2}, 1), {1, 2});
  // Nothing is mixed across a gap.
  expect_same(centred_mean(Numbers{1, 3, kNaN, 10, 20}, 3), {2, 2, kNaN, 15, 15});
  expect_same(centred_mean(Numbers{}, 5), {});
  // A huge value is forgotten behind its window.
  EXPECT_EQ(centred_mean(Numbers{1e300, 1, 1, 1}, 3).back(), 1);
}

TEST(Means, Trailing) {
  expect_same(trailing_mean(Numbers{kNaN, 2, 4, kNaN, 9}, 2), {kNaN, 2, 3, 3, 6.5});
  expect_same(trailing_mean(Numbers{5, 7}, 100), {5, 6});
}

TEST(Present, SparseValuesAreALine) {
  Numbers x, y;
  for (int i = 0; i < 100; ++i) {
    x.push_back(i);
    y.push_back(i % 10 == 0 ? i : kNaN);
  }
  const Curve curve = present(x, y);
  expect_same(curve.y, {0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
}

TEST(Present, AHoleIsAGap) {
  Numbers x, y;
  for (int i = 0; i < 30; ++i) {
    x.push_back(i);
    y.push_back(i == 5 || (i >= 10 && i < 15) ? kNaN : i);
  }
  const Curve curve = present(x, y);
  ASSERT_EQ(curve.size(), 25u);
  EXPECT_EQ(curve.y[5], 6);  // one that is missing is not a gap
  EXPECT_TRUE(std::isnan(curve.y[9]));
  EXPECT_EQ(curve.x[9], 12);  // between 9 and 15
  EXPECT_EQ(curve.y[10], 15);
  EXPECT_TRUE(present(Numbers{1}, Numbers{kNaN}).empty());
}

TEST(SpreadOf, MeanAndRangeWhereAllAre) {
  const std::vector<Curve> curves = {{{0, 10}, {0, 10}}, {{2, 12}, {4, 24}}};
  const Spread spread = spread_of(curves, 3);
  expect_same(spread.x, {2, 6, 10});
  expect_same(spread.low, {2, 6, 10});
  expect_same(spread.high, {4, 12, 20});
  expect_same(spread.mean, {3, 9, 15});
}

TEST(SpreadOf, NothingInCommon) {
  EXPECT_TRUE(spread_of(std::vector<Curve>{{{0, 1}, {0, 1}}, {{2, 3}, {0, 1}}}, 5).x.empty());
  EXPECT_TRUE(spread_of(std::vector<Curve>{{{0, 1}, {0, 1}}, {}}, 5).x.empty());
  EXPECT_TRUE(spread_of({}, 5).x.empty());
}

TEST(SpreadOf, GapsAreBridged) {
  const Spread spread = spread_of(std::vector<Curve>{{{0, 1, 2}, {0, kNaN, 2}}}, 3);
  expect_same(spread.mean, {0, 1, 2});
}

}  // namespace
}  // namespace flotilla::test
