#include "flotilla/domains/dvrp/oracle/decoding.h"

#include <algorithm>
#include <limits>

namespace flotilla::dvrp {

void Decoding::reserve(int requests) {
  const auto count = static_cast<size_t>(requests), nodes = 2 * count + 1;
  cells_.reserve(nodes);
  windows_.reserve(nodes);
  status_.reserve(count);
  on_board_.reserve(kCapacity);
  allowed_.reserve(count + 1);  // of a request one of both nodes
  routes_.reserve(requests);
  route_.reserve(nodes);
  inspector_.reserve(requests);
}

void Decoding::begin(const Instance& instance) {
  instance_ = &instance;
  city_ = instance.city;
  cells_.clear();
  windows_.clear();
  for (int node = 0; node < instance.nodes(); ++node) {
    cells_.push_back(instance.cell(node));
    windows_.push_back(instance.window(node));
  }
  status_.assign(instance.requests.size(), Status::kWaiting);
  on_board_.clear();
  routes_.clear();
  route_.clear();
  current_ = step_ = delivered_ = 0;
  time_ = 0;
  done_ = instance.requests.empty();
  find_allowed();
}

bool Decoding::can_pick_up(int node) const {
  const float arrival = reach(node);
  if (arrival > window(node).late) return false;
  const float start = std::max(arrival, window(node).early);
  const auto in_time = [&](int dropoff) {
    return start + way(node, dropoff) <= window(dropoff).late;
  };
  return in_time(node + 1) && std::ranges::all_of(on_board_, in_time);
}

void Decoding::find_allowed() {
  allowed_.clear();
  if (done_) return;
  bool can_deliver = false;
  for (int k = 0; k < static_cast<int>(status_.size()); ++k) {
    const int pickup = Instance::pickup_of(k);
    const Status status = status_[static_cast<size_t>(k)];
    if (status == Status::kWaiting && free_seats() > 0 && can_pick_up(pickup)) {
      allowed_.push_back(pickup);
    }
    if (status == Status::kOnBoard && can_drop_off(pickup + 1)) {
      allowed_.push_back(pickup + 1);
      can_deliver = true;
    }
  }
  if (current_ != 0 && !can_deliver) allowed_.insert(allowed_.begin(), 0);
  done_ = allowed_.empty();
}

void Decoding::go(int node) {
  ++step_;
  if (node == 0) {
    return_to_depot();
  } else {
    time_ = std::max(reach(node), window(node).early);
    route_.push_back(node);
    if (Instance::is_pickup(node)) {
      status(node) = Status::kOnBoard;
      on_board_.push_back(node + 1);
    } else {
      status(node) = Status::kDelivered;
      ++delivered_;
      std::erase(on_board_, node);
    }
  }
  current_ = node;
  if (step_ >= most_decode_steps(static_cast<int>(status_.size()))) done_ = true;
  find_allowed();
}

void Decoding::return_to_depot() {
  for (const int dropoff : on_board_) {
    status(dropoff) = Status::kWaiting;
    std::erase(route_, dropoff - 1);
  }
  on_board_.clear();
  routes_.add(route_);
  route_.clear();
  time_ = 0;
  done_ = delivered_ == static_cast<int>(status_.size());
}

void Decoding::write(Tour& tour) {
  // Where a way is longer than a detour, leaving a stop out may make the next one late.
  const bool complete = current_ == 0 && delivered_ == static_cast<int>(status_.size());
  if (complete && inspector_.passes(*instance_, routes_)) {
    tour.routes = routes_;
    tour.cost = cost_of(*instance_, routes_);
  } else {
    tour.routes.clear();
    tour.cost = std::numeric_limits<double>::infinity();
  }
}

}  // namespace flotilla::dvrp
