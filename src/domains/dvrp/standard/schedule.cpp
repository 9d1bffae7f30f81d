#include "flotilla/domains/dvrp/standard/schedule.h"

namespace flotilla::dvrp::standard {

bool Scheduler::fits(RouteView route) const {
  int load = 0;
  for (const int stop : route) {
    load += problem_.stop(stop).load;
    if (load > problem_.seats) return false;
  }
  return true;
}

void Scheduler::add(int index) {
  const Stop& stop = problem_.stop(index);
  const bool delivery = index > 0 && !Problem::is_pickup(index);
  place_of_[static_cast<size_t>(index)] = stops_.size();
  stops_.push_back(
      {.earliest = stop.earliest,
       .latest = stop.latest,
       .service = stop.service,
       .way = problem_.distance(at_, index),
       .pickup = delivery ? place_of_[static_cast<size_t>(index) - 1] : TimedStop::kNoRide,
       .longest = problem_.longest_ride(index),
       .time = 0,
       .least = 0});
  at_ = index;
}

bool Scheduler::is_feasible(RouteView route) {
  if (!fits(route)) return false;
  stops_.clear();
  at_ = 0;
  add(0);
  for (const int stop : route) add(stop);
  add(0);
  stops_.back().earliest = problem_.back_earliest;
  stops_.back().latest = problem_.back_latest;
  return find_times(stops_, problem_.route_limit);
}

std::vector<double> Scheduler::times() const {
  std::vector<double> times;
  for (const TimedStop& stop : stops_) times.push_back(stop.time);
  return times;
}

}  // namespace flotilla::dvrp::standard
