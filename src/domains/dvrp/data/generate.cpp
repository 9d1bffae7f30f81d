#include "flotilla/domains/dvrp/data/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/data/generate_details.h"

namespace flotilla::dvrp {
namespace {

constexpr double kMeanSeconds = 1226;  // between two cells

// A value of a distribution over a few.
struct Weighted {
  double value, weight;
};
double draw(Rng& rng, std::span<const Weighted> choices) {
  double total = 0;
  for (const Weighted& each : choices) total += each.weight;
  double left = rng.uniform() * total;
  for (const Weighted& each : choices) {
    left -= each.weight;
    if (left < 0) return each.value;
  }
  return choices.back().value;
}

struct Point {
  double x, y;  // kilometres
};

// Four of five in a core of 10 by 10 km, the others anywhere in a box of about 22 by 12.
std::vector<Point> draw_points(int count, Rng& rng) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) {
    const bool core = rng.chance(0.8);
    points.push_back(core ? Point{rng.uniform(-5, 5), rng.uniform(-5, 5)}
                          : Point{rng.uniform(-11, 11), rng.uniform(-6, 6)});
  }
  return points;
}

// Around the middle of San Francisco, with as many decimals as tables have.
Position position_of(const Point& point) {
  constexpr double kLatitude = 37.76, kLongitude = -122.44;
  constexpr double kNorth = 111.0, kEast = 87.8;  // kilometres per degree there
  const auto rounded = [](double degrees) { return std::round(degrees * 1e6) / 1e6; };
  return {rounded(kLatitude + point.y / kNorth), rounded(kLongitude + point.x / kEast)};
}

// No way is longer than a detour: Floyd (1962).
void close_under_detours(std::vector<double>& time, size_t n) {
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        time[i * n + j] = std::min(time[i * n + j], time[i * n + k] + time[k * n + j]);
      }
    }
  }
}

// Starts of pickups by hour.
constexpr std::array<Weighted, 18> kHours = {{{4, 6},
                                              {5, 10},
                                              {6, 82},
                                              {7, 118},
                                              {8, 108},
                                              {9, 128},
                                              {10, 130},
                                              {11, 125},
                                              {12, 85},
                                              {13, 113},
                                              {14, 117},
                                              {15, 87},
                                              {16, 79},
                                              {17, 125},
                                              {18, 133},
                                              {19, 76},
                                              {20, 30},
                                              {21, 13}}};

// Minutes that travellers of each flexibility bear, at the pickup and at the drop-off.
constexpr std::array<Weighted, 5> kLatePickup = {{{10, 42}, {0, 23}, {15, 14}, {5, 11}, {20, 10}}};
constexpr std::array<Weighted, 6> kLateDropoff = {
    {{20, 28}, {30, 28}, {10, 26}, {15, 12}, {5, 3}, {25, 3}}};
constexpr std::array<Weighted, 7> kEarlyPickup = {
    {{10, 26}, {20, 24}, {30, 23}, {15, 17}, {5, 4}, {25, 3}, {0, 3}}};
constexpr std::array<Weighted, 7> kEarlyDropoff = {
    {{0, 25}, {10, 25}, {15, 16}, {5, 15}, {20, 11}, {25, 4}, {30, 4}}};
constexpr std::array<Weighted, 4> kBothPickup = {{{10, 1}, {15, 1}, {20, 1}, {30, 1}}};
constexpr std::array<Weighted, 5> kBothDropoff = {{{5, 1}, {10, 1}, {15, 1}, {20, 1}, {30, 1}}};

struct Bearable {
  int earlier, later;
};
Bearable draw_bearable(Rng& rng, Flexibility flexibility) {
  const auto minutes = [&rng](std::span<const Weighted> choices) {
    return static_cast<int>(draw(rng, choices));
  };
  switch (flexibility) {
    case Flexibility::kLate:
      return {minutes(kLatePickup), minutes(kLateDropoff)};
    case Flexibility::kEarly:
      return {minutes(kEarlyPickup), minutes(kEarlyDropoff)};
    case Flexibility::kBoth:
      return {minutes(kBothPickup), minutes(kBothDropoff)};
    case Flexibility::kNone:
      break;
  }
  return {0, 0};
}

// Of thirty travellers eight, thirteen, six and three.
std::vector<Flexibility> draw_flexibilities(int count, Rng& rng) {
  constexpr std::array<int, kFlexibilities> kOfThirty = {8, 13, 6, 3};
  std::vector<Flexibility> all;
  int sum = 0;
  for (int type = 0; type < kFlexibilities; ++type) {
    sum += kOfThirty[static_cast<size_t>(type)];
    const auto until = static_cast<size_t>(std::lround(static_cast<double>(count) * sum / 30));
    while (all.size() < until) all.push_back(static_cast<Flexibility>(type));
  }
  for (size_t left = all.size(); left > 1; --left) {
    std::swap(all[left - 1], all[rng.below(static_cast<uint32_t>(left))]);
  }
  return all;
}

constexpr std::array<const char*, 12> kPurposes = {"shopping", "recreation",   "hiking", "doctor",
                                                   "friends",  "restaurant",   "gym",    "library",
                                                   "school",   "music lesson", "museum", "errands"};

// Draws trips of one traveller after the other.
class TripMaker {
 public:
  TripMaker(const City& city, Rng& rng) : city_(city), rng_(rng) {
    const std::vector<int> cells = by_popularity();
    // After Zipf, with exponent 1.1.
    for (size_t i = 0; i < cells.size(); ++i) {
      const auto rank = static_cast<double>(i + 1);
      popularity_.push_back({static_cast<double>(cells[i]), 1 / std::pow(rank, 1.1)});
    }
    // Most live in one cell, most others in a second one.
    const auto cell = [&](size_t i) { return popularity_[std::min(i, cells.size() - 1)].value; };
    homes_ = {{cell(1), 19}, {cell(3), 10}, {cell(6), 1}};
  }

  void begin(int traveller, Flexibility flexibility) {
    traveller_ = traveller;
    flexibility_ = flexibility;
    home_ = static_cast<int>(draw(rng_, homes_));
    last_ = home_;
    last_place_ = "home";
  }

  // Again until a vehicle can serve it alone.
  Trip next() {
    for (;;) {
      Trip trip = draw_trip();
      const float way = city_.minutes(trip.origin, trip.destination);
      if (trip.dropoff.late - trip.pickup.early - way < 15) continue;
      if (!infeasible_rows({.count = 1, .trips = {trip}, .trips_of = {}}, city_).empty()) continue;
      last_ = trip.destination;
      last_place_ = trip.arrival;
      return trip;
    }
  }

 private:
  // Cells near the depot are popular, more or less.
  std::vector<int> by_popularity() {
    std::vector<double> way;
    for (int i = 0; i < city_.size(); ++i) {
      const float there = city_.minutes(city_.depot(), i), back = city_.minutes(i, city_.depot());
      way.push_back((5 + static_cast<double>(there + back)) * std::exp(0.3 * rng_.normal()));
    }
    std::vector<int> cells(way.size());
    std::iota(cells.begin(), cells.end(), 0);
    std::ranges::sort(cells, {}, [&way](int cell) { return way[static_cast<size_t>(cell)]; });
    return cells;
  }

  Trip draw_trip() {
    Trip trip;
    trip.traveller = traveller_;
    trip.flexibility = flexibility_;
    const double kind = rng_.uniform();
    const bool back = kind >= 0.6 && kind < 0.75, chained = kind >= 0.75;
    const bool work = rng_.chance(0.2);
    trip.purpose = work ? "work" : kPurposes[rng_.below(kPurposes.size())];
    const std::string place = work ? "workplace" : trip.purpose + " place";
    const int there = static_cast<int>(draw(rng_, popularity_));
    trip.origin = back ? there : chained ? last_ : home_;
    trip.departure = back ? place : chained ? last_place_ : "home";
    trip.destination = back ? home_ : there;
    trip.arrival = back ? "home" : place;
    const double minute = rng_.chance(0.7) ? 0 : 30;
    const auto start = static_cast<float>(60 * draw(rng_, kHours) + minute);
    const double way = static_cast<double>(city_.minutes(trip.origin, trip.destination));
    const auto duration =
        static_cast<float>(std::max(5.0, std::round(0.75 * way + 7.5 + 4.4 * rng_.normal())));
    trip.pickup = {start, start + kWidth};
    trip.dropoff = {start + duration, start + duration + kWidth};
    const Bearable own = draw_bearable(rng_, flexibility_);
    trip.earlier_minutes = own.earlier;
    trip.later_minutes = own.later;
    decide(trip);
    return trip;
  }

  // What a traveller of each flexibility would say, his own by his own minutes. Some change their
  // mind, but nobody refuses what he asked for.
  void decide(Trip& trip) {
    constexpr double kFlips = 0.02;
    for (size_t type = 0; type < kFlexibilities; ++type) {
      const auto flexibility = static_cast<Flexibility>(type);
      const Bearable minutes = flexibility == trip.flexibility
                                   ? Bearable{trip.earlier_minutes, trip.later_minutes}
                                   : draw_bearable(rng_, flexibility);
      trip.accepts[type] = accepts_within(minutes.earlier, minutes.later);
      for (size_t action = 0; action < kActions; ++action) {
        if (rng_.chance(kFlips) && action != kNoShift) trip.accepts[type].flip(action);
      }
    }
  }

  static constexpr float kWidth = 30;  // of a window
  const City& city_;
  Rng& rng_;
  std::vector<Weighted> popularity_, homes_;
  int traveller_ = 0, home_ = 0, last_ = 0;
  Flexibility flexibility_ = Flexibility::kNone;
  std::string last_place_;
};

}  // namespace

City generate_city(const GenerateOptions& options) {
  const auto n = static_cast<size_t>(options.cells);
  Rng rng(options.seed, stream_of(Purpose::kEnv, (uint64_t{1} << 47u)));
  const std::vector<Point> points = draw_points(options.cells, rng);
  std::vector<double> traffic, time(n * n);
  for (size_t i = 0; i < n; ++i) traffic.push_back(std::exp(0.15 * rng.normal()));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double km = std::hypot(points[i].x - points[j].x, points[i].y - points[j].y);
      time[i * n + j] = 300 + 95 * km * traffic[i] * traffic[j] * std::exp(0.08 * rng.normal());
    }
  }
  close_under_detours(time, n);
  const double mean =
      std::accumulate(time.begin(), time.end(), 0.0) / static_cast<double>(n * (n - 1));
  for (double& each : time) each = std::round(each * kMeanSeconds / mean);
  close_under_detours(time, n);  // which rounding may have opened
  std::vector<int64_t> seconds;
  for (const double each : time) seconds.push_back(std::llround(each));
  std::vector<std::string> cells;
  for (size_t i = 0; i < n; ++i) cells.push_back(fmt::format("cell{:03}", i));
  City city(std::move(cells), seconds, "a made-up city");
  for (size_t i = 0; i < n; ++i) city.set_position(static_cast<int>(i), position_of(points[i]));
  return city;
}

Travellers generate_travellers(const City& city, const GenerateOptions& options) {
  Rng rng(options.seed, stream_of(Purpose::kEnv, (uint64_t{1} << 47u) + 1));
  const std::vector<Flexibility> flexibilities = draw_flexibilities(options.travellers, rng);
  TripMaker maker(city, rng);
  std::vector<Trip> trips;
  for (int traveller = 0; traveller < options.travellers; ++traveller) {
    maker.begin(traveller, flexibilities[static_cast<size_t>(traveller)]);
    const int count = static_cast<int>(std::clamp(std::round(52 + 6 * rng.normal()), 43.0, 70.0));
    for (int i = 0; i < count; ++i) trips.push_back(maker.next());
  }
  Travellers travellers = gathered(std::move(trips));
  add_details(travellers, city, options.seed);
  return travellers;
}

Data generate_data(const GenerateOptions& options) {
  City city = generate_city(options);
  Travellers travellers = generate_travellers(city, options);
  return {std::move(city), std::move(travellers)};
}

}  // namespace flotilla::dvrp
