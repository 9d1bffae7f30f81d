// A tour that is made node by node, and what the next node may be.
//
// A vehicle leaves the depot at time 0 and waits where it is early.
//   pickup    waits for a vehicle; is reached within its window; a seat is free; from there its own
//             drop-off and that of everybody on board can be reached in time, each on its own
//   drop-off  is on board and reached within its window
//   depot     the vehicle has moved, and no drop-off on board can be reached any more
// A vehicle that returns with passengers has never picked them up: they wait for another one, and
// the way to them does not count. Every vehicle delivers at least the passenger it picked up first,
// or another one, so that the tour ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/domains/dvrp/routing/router.h"

namespace flotilla::dvrp {

// Every vehicle delivers somebody and returns with at most seven that wait again: ten steps for
// each request are always enough.
constexpr int most_decode_steps(int requests) { return std::max(300, 10 * requests); }

// Allocates: nothing for as many requests as were reserved.
class Decoding {
 public:
  void reserve(int requests);
  void begin(const Instance& instance);

  // Everybody is delivered and the vehicle is back; or nothing is allowed, or it took too long.
  bool done() const { return done_; }
  // Nodes that may be next, in ascending order; none when done.
  std::span<const int> allowed() const { return allowed_; }
  // REQUIRES: one of allowed().
  void go(int node);

  int current() const { return current_; }
  int free_seats() const { return kCapacity - static_cast<int>(on_board_.size()); }
  float time() const { return time_; }
  int step() const { return step_; }

  // The routes without those who were never delivered. Infinite cost: it failed, no routes.
  void write(Tour& tour);

 private:
  enum class Status : uint8_t { kWaiting, kOnBoard, kDelivered };

  void find_allowed();
  bool can_pick_up(int node) const;
  bool can_drop_off(int node) const { return reach(node) <= window(node).late; }
  void return_to_depot();
  const Window& window(int node) const { return windows_[static_cast<size_t>(node)]; }
  float way(int from, int to) const {
    return city_->minutes(cells_[static_cast<size_t>(from)], cells_[static_cast<size_t>(to)]);
  }
  float reach(int node) const { return time_ + way(current_, node); }
  Status& status(int node) { return status_[static_cast<size_t>(Instance::request_of(node))]; }

  const Instance* instance_ = nullptr;
  const City* city_ = nullptr;
  std::vector<int> cells_;       // by node
  std::vector<Window> windows_;  // by node
  std::vector<Status> status_;   // by request
  std::vector<int> on_board_;    // their drop-offs
  std::vector<int> allowed_;
  Routes routes_;
  Route route_;  // of the vehicle under way
  int current_ = 0, step_ = 0, delivered_ = 0;
  float time_ = 0;
  bool done_ = false;
  Inspector inspector_;
};

}  // namespace flotilla::dvrp
