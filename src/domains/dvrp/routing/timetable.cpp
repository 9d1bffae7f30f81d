#include "flotilla/domains/dvrp/routing/timetable.h"

#include <algorithm>

namespace flotilla::dvrp {
namespace {

bool push_forward(std::span<TimedStop> stops, size_t from) {
  for (size_t i = from; i < stops.size(); ++i) {
    TimedStop& stop = stops[i];
    stop.time = stop.least;
    if (i > 0) {
      const TimedStop& before = stops[i - 1];
      stop.time = std::max(stop.time, before.time + before.service + stop.way);
    }
    if (stop.time > stop.latest + kTimeRounding) return false;
  }
  return true;
}

// Times that must be later for rides and the route not to be too long; the first of them, or
// kNoRide.
size_t pull_up(std::span<TimedStop> stops, double longest) {
  size_t first = TimedStop::kNoRide;
  const auto require = [&](size_t place, double time) {
    if (stops[place].time >= time - kTimeRounding) return;
    stops[place].least = time;
    first = std::min(first, place);
  };
  require(0, stops.back().time - longest);
  for (const TimedStop& stop : stops) {
    if (stop.pickup == TimedStop::kNoRide) continue;
    require(stop.pickup, stop.time - stop.longest - stops[stop.pickup].service);
  }
  return first;
}

}  // namespace

bool find_times(std::span<TimedStop> stops, double longest) {
  for (TimedStop& stop : stops) stop.least = stop.earliest;
  // Each round settles the times along one more turn back in time, or they go in circles.
  size_t from = 0;
  for (size_t round = 0; round <= stops.size(); ++round) {
    if (!push_forward(stops, from)) return false;
    from = pull_up(stops, longest);
    if (from == TimedStop::kNoRide) return true;
  }
  return false;
}

}  // namespace flotilla::dvrp
