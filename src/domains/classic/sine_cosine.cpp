#include "flotilla/domains/classic/sine_cosine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace flotilla::classic {
namespace {

void ask_library(const double* angles, double* sines, double* cosines, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    // Next to each other: the compiler merges them into one sincos.
    cosines[i] = std::cos(angles[i]);
    sines[i] = std::sin(angles[i]);
  }
}

using Find = void (*)(const double*, double*, double*, size_t);

// Vectors of two doubles are too short to gain by it.
#if defined(__x86_64__)

constexpr double kSmallest = 1e-6, kLargest = 0.45;  // of the angles' sizes
constexpr size_t kAtOnce = 64;

// value + rest, as it would be without rounding but for less than 0.008 units of value's last
// place.
struct Sum {
  double value, rest;
};

// The sum of a large number, an exact one and a small one.
[[gnu::always_inline]] inline Sum sum_of(double large, double exact, double small) {
  const double first = large + exact;
  const double left = ((large - first) + exact) + small;
  const double value = first + left;
  return {value, (first - value) + left};
}

// An angle is cut into its first 12 bits and the rest, so that the square and the cube of the first
// part are exact. Then come the series of Taylor, of which the small terms can be rounded.
[[gnu::always_inline]] inline Sum sine_of(double x, double head, double tail, double z) {
  // -1/6 by its first bits, whose product with the cube is exact, and what that leaves.
  constexpr double kSixth = -0x1.5555p-3, kRest = static_cast<double>(-1.0L / 6 - kSixth);
  const double cube = head * head * head;
  const double rest_of_cube = tail * (z + head * (x + head));
  const double series =
      z * (1. / 120 +
           z * (-1. / 5040 +
                z * (1. / 362880 +
                     z * (-1. / 39916800 + z * (1. / 6227020800 + z * (-1. / 1307674368000))))));
  return sum_of(x, cube * kSixth, cube * kRest + rest_of_cube * (-1. / 6) + (x * z) * series);
}

[[gnu::always_inline]] inline Sum cosine_of(double x, double head, double tail, double z) {
  const double rest_of_square = tail * (x + head);
  const double series =
      (z * z) *
      (1. / 24 +
       z * (-1. / 720 + z * (1. / 40320 + z * (-1. / 3628800 +
                                               z * (1. / 479001600 + z * (-1. / 87178291200))))));
  return sum_of(1, -0.5 * (head * head), series - 0.5 * rest_of_square);
}

// Whether the rest is so far from half a unit that the library rounds as we do.
[[gnu::always_inline]] inline bool is_sure(Sum sum) {
  constexpr double kNearHalf = 1.0625;  // 0.5 / 0.47
  return sum.value + sum.rest * kNearHalf == sum.value;
}

[[gnu::always_inline]] inline void find_some(const double* angles, double* sines, double* cosines,
                                             size_t count) {
  int64_t sure[kAtOnce];
  for (size_t i = 0; i < count; ++i) {
    constexpr double kFirstBits = 0x1p41 + 1;
    const double x = angles[i], z = x * x;
    const double shifted = x * kFirstBits, head = shifted - (shifted - x), tail = x - head;
    const Sum sine = sine_of(x, head, tail, z), cosine = cosine_of(x, head, tail, z);
    sines[i] = sine.value;
    cosines[i] = cosine.value;
    // As numbers: without a branch the compiler makes vectors of it.
    sure[i] = int64_t{std::abs(x) >= kSmallest} & int64_t{std::abs(x) <= kLargest} &
              int64_t{is_sure(sine)} & int64_t{is_sure(cosine)};
  }
  for (size_t i = 0; i < count; ++i) {
    if (sure[i] == 0) ask_library(angles + i, sines + i, cosines + i, 1);
  }
}

[[gnu::target("avx2")]] void find_with_avx2(const double* angles, double* sines, double* cosines,
                                            size_t count) {
  for (size_t first = 0; first < count; first += kAtOnce) {
    find_some(angles + first, sines + first, cosines + first, std::min(kAtOnce, count - first));
  }
}

Find best_for_this_cpu() { return __builtin_cpu_supports("avx2") ? find_with_avx2 : ask_library; }

#else
Find best_for_this_cpu() { return ask_library; }
#endif

}  // namespace

void sines_and_cosines(const double* angles, double* sines, double* cosines, size_t count) {
  static const Find best = best_for_this_cpu();
  best(angles, sines, cosines, count);
}

}  // namespace flotilla::classic
