#include "flotilla/domains/dvrp/routing/detours.h"

#include <algorithm>
#include <limits>

namespace flotilla::dvrp {
namespace {

constexpr float kNoWay = std::numeric_limits<float>::infinity();

}  // namespace

Detours::Detours(const City& city)
    : city_(city),
      depot_{.cell = city.depot(), .early = 0, .ready = 0, .latest = kDay, .load = 0} {}

void Detours::visit(const Request& request, bool is_pickup) {
  const size_t begin = vehicles_ == 0 ? 0 : ends_[vehicles_ - 1];
  if (count_ == begin) add(depot_);
  const Window window = is_pickup ? request.pickup : request.dropoff;
  add({.cell = is_pickup ? request.origin : request.destination,
       .early = window.early,
       .ready = 0,
       .latest = window.late,
       .load = stops_[count_ - 1].load + (is_pickup ? 1 : -1)});
}

void Detours::end_route() {
  const size_t begin = vehicles_ == 0 ? 0 : ends_[vehicles_ - 1];
  if (count_ == begin) return;
  add(depot_);
  find_times(std::span(stops_).subspan(begin, count_ - begin));
  ends_[vehicles_++] = count_;
}

void Detours::find_times(std::span<Stop> stops) const {
  for (size_t i = 1; i < stops.size(); ++i) {
    const float arrival = stops[i - 1].ready + city_.minutes(stops[i - 1].cell, stops[i].cell);
    stops[i].ready = std::max(arrival, stops[i].early);
  }
  for (size_t i = stops.size() - 1; i-- > 0;) {
    const float way = city_.minutes(stops[i].cell, stops[i + 1].cell);
    stops[i].latest = std::min(stops[i].latest, stops[i + 1].latest - way);
  }
}

float Detours::least_in(std::span<const Stop> stops, const Request& request) const {
  const int from = request.origin, to = request.destination;
  const float ride = city_.minutes(from, to);
  float least = kNoWay;
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
  float least = least_in(std::array{depot_, depot_}, request);
  size_t begin = 0;
  for (const size_t end : std::span(ends_).first(vehicles_)) {
    least = std::min(least, least_in(std::span(stops_).subspan(begin, end - begin), request));
    begin = end;
  }
  return least;
}

std::array<float, kActions> detours_of_shifts(const Detours& detours, const Request& request,
                                              Granting granting) {
  std::array<float, kActions> minutes = {};
  for (int action = 0; action < kActions; ++action) {
    minutes[static_cast<size_t>(action)] =
        detours.least(shifted(request, shift_of(action), granting));
  }
  return minutes;
}

}  // namespace flotilla::dvrp
