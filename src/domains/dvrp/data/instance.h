// What is to be routed: requests, each a pickup and a drop-off with its time window.
//
// Nodes: 0 is the depot; request k has its pickup at 2k + 1 and its drop-off at 2k + 2.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/data/data.h"
#include "flotilla/domains/dvrp/data/limits.h"

namespace flotilla::dvrp {

constexpr int kCapacity = 8;         // passengers of a vehicle
constexpr int kMostCustomers = 200;  // of a day that is negotiated

struct Request {
  int trip = 0;                     // in the data's trips
  int origin = 0, destination = 0;  // cells
  Window pickup, dropoff;

  bool operator==(const Request&) const = default;
};

// As its traveller asks for it.
Request request_for(const Travellers& travellers, int trip);

// What becomes of windows when a shift is accepted.
enum class Granting : uint8_t {
  kMove,  // they move, as wide as before: the traveller is not where he wanted to be at first
  kWiden  // they reach as far, and hold what was asked for as well: routes can only gain
};

// The windows after a shift that was accepted, within the day.
Request shifted(Request request, Shift shift, Granting granting = Granting::kMove);

struct Instance {
  const City* city = nullptr;
  std::vector<Request> requests;
  Limits limits = {};  // of every ride

  int nodes() const { return 2 * static_cast<int>(requests.size()) + 1; }
  static constexpr int pickup_of(int request) { return 2 * request + 1; }
  static constexpr int request_of(int node) { return (node - 1) / 2; }
  static constexpr bool is_pickup(int node) { return node % 2 == 1; }
  const Request& request_at(int node) const {
    return requests[static_cast<size_t>(request_of(node))];
  }
  int cell(int node) const {
    if (node == 0) return city->depot();
    return is_pickup(node) ? request_at(node).origin : request_at(node).destination;
  }
  Window window(int node) const {
    if (node == 0) return {0, kDay};
    return is_pickup(node) ? request_at(node).pickup : request_at(node).dropoff;
  }
  float minutes(int from, int to) const { return city->minutes(cell(from), cell(to)); }
  double seconds(int from, int to) const {
    return static_cast<double>(city->seconds(cell(from), cell(to)));
  }
  // That may end at this drop-off.
  double longest_ride_s(int dropoff) const {
    return limits.longest_ride_s(seconds(dropoff - 1, dropoff));
  }
};

// Travellers in random order, none of them twice, and a trip of each.
class TripDraw {
 public:
  // `memory` holds a number per draw, and outlives this. REQUIRES: no more draws than travellers.
  TripDraw(const Travellers& travellers, std::span<int> memory)
      : travellers_(travellers), places_(memory) {}

  int next(Rng& rng);

 private:
  const Travellers& travellers_;
  std::span<int> places_;  // that were drawn, in order
  size_t drawn_ = 0;
};

// A trip of each of `customers` travellers, in random order; all travellers where there are no
// more. REQUIRES: 1 to as many as there are.
Instance draw_instance(const Data& data, int customers, Rng& rng);

}  // namespace flotilla::dvrp
