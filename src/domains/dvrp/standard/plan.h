// What the search changes: the routes of a fleet, and the cheapest places in them.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/standard/schedule.h"

namespace flotilla::dvrp::standard {

// Where a request may go: behind which places, of those that are there now, 0 being the depot.
struct Place {
  double extra = kNoLimit;  // distance
  size_t pickup = 0, delivery = 0;
};

// A route with the times that windows alone allow: bounds for a quick look at a change, before the
// whole schedule is made.
class Vehicle {
 public:
  RouteView route() const { return {stops_.data() + 1, stops_.size() - 2}; }
  bool empty() const { return stops_.size() == 2; }
  // Vehicles of the same stamp have the same stops.
  uint64_t stamp() const { return stamp_; }

  void set(const Problem& problem, RouteView route, uint64_t stamp);
  // `room` is memory for the routes that are looked at. With `blinks` some places are overlooked by
  // chance.
  Place best_place(const Problem& problem, Scheduler& scheduler, int request, Route& room,
                   Rng* blinks = nullptr) const;
  // The time of a stop by windows alone.
  double earliest_at(int stop) const;

 private:
  void try_deliveries(const Problem& problem, Scheduler& scheduler, int request, size_t pickup,
                      Place& best, Route& room, Rng* blinks) const;
  double detour(const Problem& problem, size_t place, int stop) const;

  std::vector<int> stops_ = {0, 0};  // with the depot at both ends
  std::vector<double> earliest_, latest_;
  std::vector<int> load_;  // behind each
  uint64_t stamp_ = 0;
};

// What is known of vehicles, by their stamps.
class Memo {
 public:
  explicit Memo(const Problem& problem)
      : problem_(problem),
        scheduler_(problem),
        places_(static_cast<size_t>(problem.requests()) * kSlots) {}

  const Place& best_place(const Vehicle& vehicle, int request);
  // One that may not be the best, and is not remembered.
  Place some_place(const Vehicle& vehicle, int request, Rng& blinks);
  uint64_t new_stamp() { return ++stamps_; }

 private:
  static constexpr size_t kSlots = 64;
  struct Known {
    uint64_t stamp = 0;
    Place place;
  };

  const Problem& problem_;
  Scheduler scheduler_;
  std::vector<Known> places_;  // by request, and the stamp's last digits
  Route room_;
  uint64_t stamps_ = 0;
};

struct Insertion {
  int regret = 2;       // vehicles that are looked at to see who suffers most from waiting; 1: the
                        // cheapest first
  double noise = 0;     // share by which costs are blurred
  bool blinks = false;  // some places are overlooked: the cheapest may leave no room for others
};

class Plan {
 public:
  // Nobody is served; at most so many vehicles.
  Plan(const Problem& problem, Memo& memo, int vehicles);

  double distance() const { return distance_; }
  const std::vector<int>& bank() const { return bank_; }
  size_t used() const;
  bool is_served(int request) const { return vehicle_of_[static_cast<size_t>(request)] >= 0; }
  bool together(int a, int b) const {
    return vehicle_of_[static_cast<size_t>(a)] == vehicle_of_[static_cast<size_t>(b)];
  }
  double pickup_time(int request) const;
  // What it saves to leave a request out.
  double saving(int request) const;
  std::vector<Route> routes() const;

  // Into the bank.
  void take_out(const std::vector<int>& requests);
  // One vehicle less: that with the fewest requests.
  void dissolve_smallest();
  // Those of the bank that find a place. Throws Error(kInterrupted).
  void insert_bank(const Insertion& how, Rng& rng);

 private:
  struct Offer {
    double cost = kNoLimit;
    size_t vehicle = 0;
    Place place;
  };
  void change(size_t vehicle, RouteView route);
  void insert(int request, size_t vehicle, const Place& place);
  // What all vehicles ask for a request, of empty ones the first alone.
  void ask(int request, const Insertion& how, Rng& rng);

  const Problem* problem_;
  Memo* memo_;
  std::vector<Vehicle> vehicles_;
  std::vector<int> vehicle_of_;  // by request; -1: in the bank
  std::vector<int> bank_;
  double distance_ = 0;
  std::vector<Offer> offers_;
  Route room_;
};

}  // namespace flotilla::dvrp::standard
