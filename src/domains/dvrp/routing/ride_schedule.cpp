#include "flotilla/domains/dvrp/routing/ride_schedule.h"

#include <algorithm>

namespace flotilla::dvrp {
namespace {

TimedStop stop_of(const Instance& instance, int node) {
  const Window window = instance.window(node);
  const bool ends_ride = node > 0 && !Instance::is_pickup(node);
  return {.earliest = window.early_s(),
          .latest = window.late_s(),
          .service = 0,
          .way = 0,
          .pickup = TimedStop::kNoRide,
          .longest = ends_ride ? instance.longest_ride_s(node) : kUnlimited,
          .time = 0,
          .least = 0};
}

}  // namespace

void RideSchedule::reserve(int requests) {
  const size_t nodes = 2 * static_cast<size_t>(requests) + 1;
  of_node_.reserve(nodes);
  cells_.reserve(nodes);
  stops_.reserve(nodes + 1);
  places_.reserve(nodes);
}

void RideSchedule::set(const Instance& instance) {
  limited_ = instance.limits.any();
  if (!limited_) return;
  city_ = instance.city;
  of_node_.clear();
  cells_.clear();
  for (int node = 0; node < instance.nodes(); ++node) {
    of_node_.push_back(stop_of(instance, node));
    cells_.push_back(instance.cell(node));
  }
  places_.resize(of_node_.size());
}

void RideSchedule::start(int node, double seconds) {
  stops_.clear();
  stops_.push_back(of_node_[static_cast<size_t>(node)]);
  stops_.back().earliest = stops_.back().time = seconds;
  stops_.back().longest = kUnlimited;
  at_ = node;
  late_ = too_long_ = false;
}

void RideSchedule::visit(int node) {
  const auto index = static_cast<size_t>(node);
  const int from = cells_[static_cast<size_t>(at_)];
  places_[index] = stops_.size();
  TimedStop& stop = stops_.emplace_back(of_node_[index]);
  stop.way = static_cast<double>(city_->seconds(from, cells_[index]));
  stop.time = std::max(stop.earliest, stops_[stops_.size() - 2].time + stop.way);
  late_ = late_ || stop.time > stop.latest + kTimeRounding;
  if (stop.longest < kUnlimited) {
    stop.pickup = places_[index - 1];
    const double ride = stop.time - stops_[stop.pickup].time;
    too_long_ = too_long_ || ride > stop.longest + kTimeRounding;
  }
  at_ = node;
}

// Most vehicles need not wait for the sake of rides, and who is late then will be so in any case.
bool RideSchedule::finish() {
  visit(0);
  if (late_) return false;
  return !too_long_ || find_times(stops_, kUnlimited);
}

}  // namespace flotilla::dvrp
