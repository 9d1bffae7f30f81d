#include "flotilla/domains/dvrp/routing/detours.h"

#include <algorithm>
#include <limits>

#include "flotilla/domains/dvrp/routing/timetable.h"

namespace flotilla::dvrp {
namespace {

constexpr float kNoWay = std::numeric_limits<float>::infinity();

// A vehicle's stops, one behind the other, in seconds.
class Timed {
 public:
  Timed(const City& city, const Limits& limits) : city_(city), limits_(limits) {}

  size_t count() const { return count_; }
  void add(int cell, float early, float late, size_t pickup = TimedStop::kNoRide) {
    const double way = count_ > 0 ? seconds(cells_[count_ - 1], cell) : 0;
    const double longest = pickup == TimedStop::kNoRide
                               ? kUnlimited
                               : limits_.longest_ride_s(seconds(cells_[pickup], cell));
    cells_[count_] = cell;
    stops_[count_++] = {.earliest = 60 * static_cast<double>(early),
                        .latest = 60 * static_cast<double>(late),
                        .service = 0,
                        .way = way,
                        .pickup = pickup,
                        .longest = longest,
                        .time = 0,
                        .least = 0};
  }
  bool have_times() { return find_times(std::span(stops_).first(count_), kUnlimited); }

 private:
  double seconds(int from, int to) const { return static_cast<double>(city_.seconds(from, to)); }

  static constexpr size_t kMost = 2 * kMostCustomers + 4;
  const City& city_;
  const Limits& limits_;
  std::array<TimedStop, kMost> stops_;
  std::array<int, kMost> cells_;
  size_t count_ = 0;
};

}  // namespace

Detours::Detours(const City& city, const Limits& limits)
    : city_(city),
      limits_(limits),
      depot_{.cell = city.depot(),
             .early = 0,
             .ready = 0,
             .latest = kDay,
             .load = 0,
             .late = kDay,
             .node = 0,
             .pickup = TimedStop::kNoRide} {}

void Detours::visit(const Request& request, int node) {
  const size_t begin = vehicles_ == 0 ? 0 : ends_[vehicles_ - 1];
  if (count_ == begin) add(depot_);
  const bool is_pickup = Instance::is_pickup(node);
  size_t pickup = TimedStop::kNoRide;
  if (!is_pickup && limits_.any()) {
    for (pickup = 0; stops_[begin + pickup].node != node - 1;) ++pickup;
  }
  const Window window = is_pickup ? request.pickup : request.dropoff;
  add({.cell = is_pickup ? request.origin : request.destination,
       .early = window.early,
       .ready = 0,
       .latest = window.late,
       .load = stops_[count_ - 1].load + (is_pickup ? 1 : -1),
       .late = window.late,
       .node = node,
       .pickup = pickup});
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

bool Detours::keeps_limits(std::span<const Stop> stops, const Request& request,
                           size_t pickup_behind, size_t dropoff_behind) const {
  if (!limits_.any()) return true;
  Timed timed(city_, limits_);
  size_t pickup = 0;
  for (size_t i = 0; i < stops.size(); ++i) {
    const Stop& stop = stops[i];
    size_t start = stop.pickup;  // of the ride that ends here, behind the new stops before it
    if (start != TimedStop::kNoRide) {
      start += (stop.pickup > pickup_behind ? 1 : 0) + (stop.pickup > dropoff_behind ? 1 : 0);
    }
    timed.add(stop.cell, stop.early, stop.late, start);
    if (i == pickup_behind) {
      pickup = timed.count();
      timed.add(request.origin, request.pickup.early, request.pickup.late);
    }
    if (i == dropoff_behind) {
      timed.add(request.destination, request.dropoff.early, request.dropoff.late, pickup);
    }
  }
  return timed.have_times();
}

float Detours::least_in(std::span<const Stop> stops, const Request& request) const {
  const int from = request.origin, to = request.destination;
  const float ride = city_.minutes(from, to);
  float least = kNoWay;
  const auto offer = [&](float minutes, size_t pickup_behind, size_t dropoff_behind) {
    if (minutes >= least || !keeps_limits(stops, request, pickup_behind, dropoff_behind)) return;
    least = minutes;
  };
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
        offer(here + ride + onward, i, i);
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
        offer(pickup + city_.minutes(stops[j].cell, to) + onward - direct, i, j);
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
