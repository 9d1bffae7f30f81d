#include "flotilla/domains/dvrp/data/generate_details.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "flotilla/core/rng.h"

namespace flotilla::dvrp {
namespace {

constexpr std::array<const char*, 5> kAges = {"18-24", "25-34", "35-49", "50-64", "65 and over"};
constexpr std::array<const char*, 7> kOccupations = {
    "office worker", "service worker", "teacher", "nurse", "student", "retired", "self-employed"};
constexpr std::array<const char*, 6> kIncomes = {"below 25k", "25k-50k",   "50k-75k",
                                                 "75k-100k",  "100k-150k", "above 150k"};

template <size_t n>
const char* one_of(const std::array<const char*, n>& texts, Rng& rng) {
  return texts[rng.below(static_cast<uint32_t>(n))];
}

// As the crow flies, on a sphere.
double miles_between(const Position& a, const Position& b) {
  constexpr double kMilesOfADegree = 69.1;
  const double middle = (a.latitude + b.latitude) / 2 * std::numbers::pi / 180;
  return kMilesOfADegree *
         std::hypot(a.latitude - b.latitude, (a.longitude - b.longitude) * std::cos(middle));
}

}  // namespace

void add_details(Travellers& travellers, const City& city, uint64_t seed) {
  Rng rng(seed, stream_of(Purpose::kEnv, (uint64_t{1} << 47u) + 2));
  for (int i = 0; i < travellers.count; ++i) {
    const char* age = one_of(kAges, rng);
    const char* occupation = one_of(kOccupations, rng);
    travellers.people.push_back({age, occupation, one_of(kIncomes, rng)});
  }
  for (Trip& trip : travellers.trips) {
    const double noise = std::exp(0.1 * rng.normal());
    const auto from = city.position(trip.origin), to = city.position(trip.destination);
    if (from && to) {
      // Streets are longer than the crow's way, and a trip within a cell has a length, too.
      const double miles = (0.8 + 1.1 * miles_between(*from, *to)) * noise;
      trip.miles = std::clamp(std::round(10 * miles) / 10, 0.1, 12.5);
    }
    // Of a hundred trips, three state another duration than their windows do.
    const double shown = static_cast<double>(trip.dropoff.early - trip.pickup.early);
    const bool other = rng.chance(0.03);
    const double off = rng.uniform(1, 6);
    trip.duration_minutes = std::round(other ? shown + off : shown);
  }
}

}  // namespace flotilla::dvrp
