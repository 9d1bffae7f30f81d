// What the solver works on: routes with their times, and the cheapest changes to them.
//
// Vehicles carry stamps, and what was computed of one is kept under its stamp: a search changes one
// or two vehicles at a time, and asks about all of them again and again.
//
// All of it can be used for one instance after the other. Stamps are never given twice, so that
// what is known of vehicles of earlier instances does no harm.
// Allocates: nothing for as many requests as were reserved, each the only version of itself; memory
// grows to the largest instance otherwise, and stays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/routing/ride_schedule.h"
#include "flotilla/domains/dvrp/routing/solver.h"

namespace flotilla::dvrp {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The instance by nodes, in tables. A customer is served by one version of his request.
class Problem {
 public:
  Problem() = default;  // of no requests
  explicit Problem(const Instance& instance) { set(instance); }

  void reserve(int requests);
  // Every request is the only version of itself.
  void set(const Instance& instance);
  void set(const Instance& instance, const Versions& versions);

  int requests() const { return nodes_ / 2; }
  int customers() const { return static_cast<int>(version_ends_.size()); }
  std::span<const int> versions_of(int customer) const {
    const auto c = static_cast<size_t>(customer);
    const size_t begin = c == 0 ? 0 : version_ends_[c - 1];
    return std::span(versions_).subspan(begin, version_ends_[c] - begin);
  }
  // Minutes, by the node they lead to.
  const float* ways_from(int node) const {
    return minutes_.data() + static_cast<size_t>(node) * static_cast<size_t>(nodes_);
  }
  float way(int from, int to) const { return ways_from(from)[to]; }
  const Window& window(int node) const { return windows_[static_cast<size_t>(node)]; }
  // For one vehicle after the other: limits are asked for where windows allow a change.
  RideSchedule& rides() { return rides_; }
  uint64_t new_stamp() { return ++stamps_; }

 private:
  void set_nodes(const Instance& instance);

  int nodes_ = 1;
  std::vector<int> versions_;         // of all customers, one behind the other
  std::vector<size_t> version_ends_;  // by customer: behind his last version
  std::vector<int> cells_;            // by node
  std::vector<Window> windows_;
  std::vector<float> minutes_;
  RideSchedule rides_;
  uint64_t stamps_ = 0;
};

struct Place {
  double extra = kNever;             // minutes
  uint32_t pickup = 0, dropoff = 0;  // behind which stops, of those that are there now
};

// A vehicle's stops with the depot at both ends; when it is where, and how late it may be there.
class Vehicle {
 public:
  Vehicle() = default;  // not to be used before it is assigned
  explicit Vehicle(Problem& problem, RouteView route = {}) { set(problem, route); }
  // Copied, never moved: what is left of a moved one would still have its stamp.
  Vehicle(const Vehicle&) = default;
  Vehicle& operator=(const Vehicle& other);

  void reserve(int requests) {
    stops_.reserve(2 * static_cast<size_t>(requests) + 2);
    served_.reserve(stops_.capacity());
  }
  void set(Problem& problem, RouteView route = {});

  // Vehicles of the same stamp have the same stops.
  uint64_t stamp() const { return stamp_; }
  bool empty() const { return stops_.size() == 2; }
  void add_to(Routes& routes) const;
  // Where a detour is shorter than the direct way, leaving one out can make others late, or their
  // rides too long.
  bool in_time() const { return in_time_; }

  // The cheapest place for a request.
  Place best_place(int request) const;
  void insert(int request, const Place& place);
  // What it saves to leave a request out.
  double saving(int request) const;
  // Leaves one out and returns what that saves. Before the times are asked for: update().
  double take_out(int request);
  // The times of the stops that are affected by what changed since the last time.
  void update();

 private:
  struct Stop {
    int node = 0;
    int load = 0;         // behind it
    float start = 0;      // of service
    float latest = kDay;  // at which service may start so that nothing behind it is late
  };
  struct Ends {
    size_t pickup, dropoff;
  };
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  Ends ends_of(int request) const;
  double saving(int request, Ends at) const;
  // Places of a drop-off, for a pickup right behind a stop.
  void try_dropoffs(const Stop* before, int pickup, Place& best) const;
  bool keep_limits();
  // With a request whose pickup stands right behind one stop and its drop-off right before another.
  bool keeps_limits_with(int pickup, const Stop* behind, const Stop* before) const;
  uint32_t index_of(const Stop* stop) const { return static_cast<uint32_t>(stop - stops_.data()); }
  // Stops `first` to `last` come behind another stop than before; `first` to `last` - 1 may be new.
  void stops_changed(size_t first, size_t last);
  void update_starts();
  void update_latest();
  double way(int from, int to) const { return static_cast<double>(problem_->way(from, to)); }
  double detour(int from, int over, int to) const {
    return way(from, over) + way(over, to) - way(from, to);
  }
  float reach(int from, float time, int to) const {
    return std::max(time + problem_->way(from, to), problem_->window(to).early);
  }

  Problem* problem_ = nullptr;
  std::vector<Stop> stops_;
  std::vector<double> served_;  // by stop, seconds: when service starts, where rides have limits
  uint64_t stamp_ = 0;
  bool in_time_ = true;
  size_t first_changed_ = kNone, last_changed_ = 0;
};

// What the vehicles of a plan ask for taking customers on.
class Bids {
 public:
  struct Bid {
    double minutes = kNever;  // with noise
    int request = -1;         // the version
    Place place;
  };
  struct Best {
    size_t vehicle = 0;
    double first = kNever, second = kNever;  // minutes of the two cheapest vehicles
    double regret() const { return second == kNever ? 1e6 - first : second - first; }
  };

  // Of plans that serve so many customers: at most one vehicle for each, and an empty one.
  void reserve(int customers);
  // None yet. Room for vehicles that come later.
  void clear(size_t customers, size_t vehicles);
  Bid& at(size_t customer, size_t vehicle) { return bids_[rows_[customer] * stride_ + vehicle]; }
  Best best(size_t customer, size_t vehicles) const;
  // The customers behind move up.
  void erase(size_t customer) {
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(customer));
  }

 private:
  std::vector<size_t> rows_;  // by customer
  std::vector<Bid> bids_;     // by row and vehicle
  size_t stride_ = 0;
};

// What is known of vehicles, by their stamps.
class Memo {
 public:
  Memo() = default;
  explicit Memo(int requests) { fit(requests); }

  void reserve(int requests);
  // Room for so many requests.
  void fit(int requests);

  const Place& best_place(const Vehicle& vehicle, int request) {
    const uint64_t stamp = vehicle.stamp();
    Known<Place>& known = places_[static_cast<size_t>(request) * kSlots + stamp % kSlots];
    if (known.stamp != stamp) known = {stamp, vehicle.best_place(request)};
    return known.value;
  }
  double saving(const Vehicle& vehicle, int request);
  // The vehicle of a request, without it.
  const Vehicle& without(const Vehicle& vehicle, int request);
  // Of the plan that is worked on; the memory is kept.
  Bids& bids() { return bids_; }

 private:
  // Places per request that are kept, each under its stamp's last digits: vehicles of a plan that
  // alternate with other versions of themselves do not push each other out.
  static constexpr size_t kSlots = 64;
  template <class T>
  struct Known {
    uint64_t stamp = 0;
    T value = {};
  };

  std::vector<Known<Place>> places_;
  std::vector<Known<double>> savings_;  // by request
  std::vector<Known<Vehicle>> rests_;   // by request
  Bids bids_;
};

class Plan {
 public:
  Plan(Problem& problem, Memo& memo) : problem_(&problem), memo_(&memo) { clear(); }
  Plan(const Plan&) = default;
  Plan& operator=(const Plan& other);

  void reserve(int requests);
  // Of the problem as it is now: nobody is served.
  void clear();
  // REQUIRES: one version of each request.
  void set(const Routes& routes);

  double cost() const { return cost_; }  // counted from that of the first routes
  void write(Routes& routes) const;
  // The version that is served.
  int request_of(int customer) const { return request_of_[static_cast<size_t>(customer)]; }
  double saving(int customer) const {
    return memo_->saving(vehicle_with(customer), request_of(customer));
  }
  bool together(int a, int b) const {
    return vehicle_of_[static_cast<size_t>(a)] == vehicle_of_[static_cast<size_t>(b)];
  }

  // False if that makes others late.
  bool take_out(const std::vector<int>& customers);
  // Puts customers where they cost least, in the version that does, those first that would suffer
  // most from waiting: the difference between their best and second-best vehicle. `noise` above 0
  // blurs the costs. Returns false, and leaves those in `customers` that it did not come to, if one
  // has no place.
  bool insert_all(std::vector<int>& customers, double noise, Rng& rng);

  // Each takes place if it shortens the routes. REQUIRES: one version of each request.
  bool relocate(int request);
  bool exchange(int a, int b);

 private:
  // The cheapest place in a vehicle for any version. Many cost the same, and which of them leaves
  // room for others shows later only: the first one tried decides.
  Bids::Bid bid_of(const Vehicle& vehicle, int customer, double noise, Rng& rng);
  // What a vehicle asks for each of the customers.
  void ask(size_t vehicle, const std::vector<int>& customers, double noise, Rng& rng);
  void insert(int customer, int request, size_t vehicle, const Place& place);

  int& of(int customer) { return vehicle_of_[static_cast<size_t>(customer)]; }
  const Vehicle& vehicle_with(int customer) const {
    return vehicles_[static_cast<size_t>(vehicle_of_[static_cast<size_t>(customer)])];
  }
  void add_vehicle(RouteView route = {});
  // An empty vehicle is always there; returns the first.
  size_t keep_one_empty();
  std::span<Vehicle> vehicles() { return std::span(vehicles_).first(count_); }
  std::span<const Vehicle> vehicles() const { return std::span(vehicles_).first(count_); }

  Problem* problem_;
  Memo* memo_;
  std::vector<Vehicle> vehicles_;  // as many as there ever were, to keep their memory
  size_t count_ = 0;               // of those that there are
  std::vector<int> vehicle_of_;    // by customer; -1: none
  std::vector<int> request_of_;    // by customer
  double cost_ = 0;
};

}  // namespace flotilla::dvrp
