#include "flotilla/domains/classic/sine_cosine.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "flotilla/core/rng.h"

namespace flotilla::classic {
namespace {

int wrong(const std::vector<double>& angles) {
  std::vector<double> sines(angles.size()), cosines(angles.size());
  sines_and_cosines(angles.data(), sines.data(), cosines.data(), angles.size());
  const auto same = [](double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  };
  int count = 0;
  for (size_t i = 0; i < angles.size(); ++i) {
    count += !same(sines[i], std::sin(angles[i])) || !same(cosines[i], std::cos(angles[i]));
  }
  return count;
}

TEST(SineCosine, AnglesOfEverySizeHaveTheBitsOfTheLibrary) {
  Rng rng(5, stream_of(Purpose::kTest, 0));
  std::vector<double> angles(100'000);
  for (const double largest : {0.001, 0.05, 0.2, 0.3, 0.5, 10.0}) {
    for (double& angle : angles) angle = rng.uniform(-largest, largest);
    EXPECT_EQ(wrong(angles), 0) << "up to " << largest;
  }
}

TEST(SineCosine, EdgesHaveTheBitsOfTheLibrary) {
  using Limits = std::numeric_limits<double>;
  std::vector<double> angles = {0, Limits::min(), Limits::denorm_min(), 1e300, Limits::infinity()};
  for (const double edge : {1e-6, 0.45}) {
    for (const double towards : {0.0, 1.0}) angles.push_back(std::nextafter(edge, towards));
    angles.push_back(edge);
  }
  for (int e = -60; e < 0; ++e) angles.push_back(std::ldexp(1.0, e));
  const size_t positive = angles.size();
  for (size_t i = 0; i < positive; ++i) angles.push_back(-angles[i]);
  EXPECT_EQ(wrong(angles), 0);
}

TEST(SineCosine, AnyNumberAtOnce) {
  for (const size_t count : {0, 1, 3, 63, 64, 65, 200}) {
    std::vector<double> angles(count);
    for (size_t i = 0; i < count; ++i) angles[i] = 0.002 * static_cast<double>(i);
    EXPECT_EQ(wrong(angles), 0) << count;
  }
}

}  // namespace
}  // namespace flotilla::classic
