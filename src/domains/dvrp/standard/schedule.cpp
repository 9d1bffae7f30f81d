#include "flotilla/domains/dvrp/standard/schedule.h"

#include <algorithm>

namespace flotilla::dvrp::standard {
namespace {

// Well below what checkers allow.
constexpr double kRounding = 1e-9;

}  // namespace

bool Scheduler::fits(RouteView route) const {
  int load = 0;
  for (const int stop : route) {
    load += problem_.stop(stop).load;
    if (load > problem_.seats) return false;
  }
  return true;
}

bool Scheduler::is_feasible(RouteView route) {
  if (!fits(route)) return false;
  stops_.assign(1, 0);
  stops_.insert(stops_.end(), route.begin(), route.end());
  stops_.push_back(0);
  times_.resize(stops_.size());
  least_.resize(stops_.size());
  for (size_t i = 0; i < stops_.size(); ++i) {
    place_of_[static_cast<size_t>(stops_[i])] = i;
    least_[i] = problem_.stop(stops_[i]).earliest;
  }
  least_.back() = problem_.back_earliest;
  // Each round settles the times along one more turn back in time, or they go in circles.
  size_t from = 0;
  for (size_t round = 0; round <= stops_.size(); ++round) {
    if (!push_forward(from)) return false;
    from = pull_up();
    if (from == kNone) return true;
  }
  return false;
}

bool Scheduler::push_forward(size_t from) {
  for (size_t i = from; i < stops_.size(); ++i) {
    double time = least_[i];
    if (i > 0) {
      const int before = stops_[i - 1];
      time = std::max(time, times_[i - 1] + problem_.stop(before).service +
                                problem_.distance(before, stops_[i]));
    }
    times_[i] = time;
    const bool back = i + 1 == stops_.size();
    if (time > (back ? problem_.back_latest : problem_.stop(stops_[i]).latest) + kRounding) {
      return false;
    }
  }
  return true;
}

size_t Scheduler::pull_up() {
  size_t first = kNone;
  const auto require = [&](size_t place, double time) {
    if (times_[place] >= time - kRounding) return;
    least_[place] = time;
    first = std::min(first, place);
  };
  require(0, times_.back() - problem_.route_limit);
  for (size_t i = 1; i + 1 < stops_.size(); ++i) {
    const int stop = stops_[i];
    if (Problem::is_pickup(stop)) continue;
    const size_t pickup = place_of_[static_cast<size_t>(stop - 1)];
    require(pickup, times_[i] - problem_.ride_limit - problem_.stop(stop - 1).service);
  }
  return first;
}

}  // namespace flotilla::dvrp::standard
