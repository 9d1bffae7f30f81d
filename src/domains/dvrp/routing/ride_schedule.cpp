#include "flotilla/domains/dvrp/routing/ride_schedule.h"

namespace flotilla::dvrp {
namespace {

TimedStop stop_of(const Instance& instance, int node) {
  const Window window = instance.window(node);
  const bool ends_ride = node > 0 && !Instance::is_pickup(node);
  return {.earliest = 60 * static_cast<double>(window.early),
          .latest = 60 * static_cast<double>(window.late),
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

void RideSchedule::start() {
  stops_.clear();
  at_ = 0;
  visit(0);
}

void RideSchedule::visit(int node) {
  const auto index = static_cast<size_t>(node);
  const int from = cells_[static_cast<size_t>(at_)];
  places_[index] = stops_.size();
  TimedStop& stop = stops_.emplace_back(of_node_[index]);
  stop.way = static_cast<double>(city_->seconds(from, cells_[index]));
  if (stop.longest < kUnlimited) stop.pickup = places_[index - 1];
  at_ = node;
}

bool RideSchedule::finish() {
  visit(0);
  return find_times(stops_, kUnlimited);
}

}  // namespace flotilla::dvrp
