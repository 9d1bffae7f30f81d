#include "flotilla/domains/dvrp/detours.h"

#include <algorithm>
#include <limits>

namespace flotilla::dvrp {
namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();

}  // namespace

Detours::Detours(const Instance& instance, const std::vector<Route>& routes)
    : city_(*instance.city) {
  const Stop depot{.cell = city_.depot(), .early = 0, .ready = 0, .latest = kDay, .load = 0};
  for (const Route& route : routes) vehicles_.push_back(stops_of(instance, route));
  vehicles_.push_back({depot, depot});  // one that has nothing to do yet
}

Detours::Stops Detours::stops_of(const Instance& instance, const Route& route) const {
  Stops stops(route.size() + 2);
  stops.front() = stops.back() = {.cell = city_.depot(), .early = 0, .ready = 0, .latest = kDay};
  for (size_t i = 0; i < route.size(); ++i) {
    const Window window = instance.window(route[i]);
    const int change = Instance::is_pickup(route[i]) ? 1 : -1;
    stops[i + 1] = {.cell = instance.cell(route[i]),
                    .early = window.early,
                    .ready = 0,
                    .latest = window.late,
                    .load = stops[i].load + change};
  }
  for (size_t i = 1; i < stops.size(); ++i) {
    const float arrival = stops[i - 1].ready + city_.minutes(stops[i - 1].cell, stops[i].cell);
    stops[i].ready = std::max(arrival, stops[i].early);
  }
  for (size_t i = stops.size() - 1; i-- > 0;) {
    const float way = city_.minutes(stops[i].cell, stops[i + 1].cell);
    stops[i].latest = std::min(stops[i].latest, stops[i + 1].latest - way);
  }
  return stops;
}

float Detours::least_in(const Stops& stops, const Request& request) const {
  const int from = request.origin, to = request.destination;
  const float ride = city_.minutes(from, to);
  float least = kNever;
  for (size_t i = 0; i + 1 < stops.size(); ++i) {  // the pickup behind stop i
    if (stops[i].load >= kCapacity) continue;
    const float arrival = stops[i].ready + city_.minutes(stops[i].cell, from);
    if (arrival > request.pickup.late) continue;
    const int next = stops[i + 1].cell;
    const float here = city_.minutes(stops[i].cell, from) - city_.minutes(stops[i].cell, next);
    float time = std::max(arrival, request.pickup.early);
    // The drop-off at once, then behind one stop after the other.
    if (const float there = time + ride; there <= request.dropoff.late) {
      const float onward = city_.minutes(to, next);
      if (std::max(there, request.dropoff.early) + onward <= stops[i + 1].latest) {
        least = std::min(least, here + ride + onward);
      }
    }
    const float pickup = here + city_.minutes(from, next);
    time += city_.minutes(from, next);
    for (size_t j = i + 1; j + 1 < stops.size(); ++j) {
      if (time > stops[j].latest || stops[j].load >= kCapacity) break;
      time = std::max(time, stops[j].early);
      const int behind = stops[j + 1].cell;
      const float there = time + city_.minutes(stops[j].cell, to);
      const float onward = city_.minutes(to, behind), direct = city_.minutes(stops[j].cell, behind);
      if (there <= request.dropoff.late &&
          std::max(there, request.dropoff.early) + onward <= stops[j + 1].latest) {
        least = std::min(least, pickup + city_.minutes(stops[j].cell, to) + onward - direct);
      }
      time += direct;
    }
  }
  return least;
}

float Detours::least(const Request& request) const {
  float least = kNever;
  for (const Stops& stops : vehicles_) least = std::min(least, least_in(stops, request));
  return least;
}

std::array<float, kActions> detours_of_shifts(const Detours& detours, const Request& request) {
  std::array<float, kActions> minutes = {};
  for (int action = 0; action < kActions; ++action) {
    minutes[static_cast<size_t>(action)] = detours.least(shifted(request, shift_of(action)));
  }
  return minutes;
}

}  // namespace flotilla::dvrp
