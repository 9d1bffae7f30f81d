#include "flotilla/domains/dvrp/standard/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "flotilla/core/system.h"

namespace flotilla::dvrp::standard {
namespace {

// Changes that gain less are none.
constexpr double kGain = 1e-9;

}  // namespace

void Vehicle::set(const Problem& problem, RouteView route, uint64_t stamp) {
  stamp_ = stamp;
  stops_.assign(1, 0);
  stops_.insert(stops_.end(), route.begin(), route.end());
  stops_.push_back(0);
  const size_t count = stops_.size();
  earliest_.resize(count);
  latest_.resize(count);
  load_.assign(count, 0);
  earliest_[0] = problem.stop(0).earliest;
  for (size_t i = 1; i < count; ++i) {
    const int before = stops_[i - 1], at = stops_[i];
    const bool back = i + 1 == count;
    earliest_[i] =
        std::max(back ? problem.back_earliest : problem.stop(at).earliest,
                 earliest_[i - 1] + problem.stop(before).service + problem.distance(before, at));
    load_[i] = load_[i - 1] + problem.stop(at).load;
  }
  latest_[count - 1] = problem.back_latest;
  for (size_t i = count - 1; i-- > 0;) {
    const int at = stops_[i], next = stops_[i + 1];
    latest_[i] = std::min(problem.stop(at).latest,
                          latest_[i + 1] - problem.distance(at, next) - problem.stop(at).service);
  }
}

double Vehicle::earliest_at(int stop) const {
  const auto found = std::ranges::find(stops_, stop);
  return earliest_[static_cast<size_t>(found - stops_.begin())];
}

double Vehicle::detour(const Problem& problem, size_t place, int stop) const {
  const int before = stops_[place], behind = stops_[place + 1];
  return problem.distance(before, stop) + problem.distance(stop, behind) -
         problem.distance(before, behind);
}

Place Vehicle::best_place(const Problem& problem, Scheduler& scheduler, int request, Route& room,
                          Rng* blinks) const {
  Place best;
  const int pickup = Problem::pickup_of(request);
  const Stop& stop = problem.stop(pickup);
  for (size_t i = 0; i + 1 < stops_.size(); ++i) {
    const int before = stops_[i];
    const double time =
        earliest_[i] + problem.stop(before).service + problem.distance(before, pickup);
    if (time > stop.latest) break;  // later places are reached later
    const bool fits = load_[i] + stop.load <= problem.seats;
    if (!fits || detour(problem, i, pickup) >= best.extra) continue;
    try_deliveries(problem, scheduler, request, i, best, room, blinks);
  }
  return best;
}

// Along the route, from the pickup behind one of its places on.
void Vehicle::try_deliveries(const Problem& problem, Scheduler& scheduler, int request,
                             size_t pickup_place, Place& best, Route& room, Rng* blinks) const {
  constexpr double kBlink = 0.2;
  const int pickup = Problem::pickup_of(request), delivery = pickup + 1;
  const Stop &first = problem.stop(pickup), &last = problem.stop(delivery);
  const auto behind = [&](double time, int from, int to) {
    return time + problem.stop(from).service + problem.distance(from, to);
  };
  int at = pickup;
  double time = std::max(first.earliest, behind(earliest_[pickup_place], stops_[pickup_place], at));
  double ride = 0;  // at least, until service at `at` ends
  for (size_t j = pickup_place; j + 1 < stops_.size(); ++j) {
    const int next = stops_[j + 1];
    const double there = std::max(last.earliest, behind(time, at, delivery));
    const double whole_ride = ride + problem.distance(at, delivery);
    if (there > last.latest || whole_ride > problem.longest_ride(delivery) + kGain) return;
    const double extra =
        j == pickup_place
            ? problem.distance(stops_[j], pickup) + problem.distance(pickup, delivery) +
                  problem.distance(delivery, next) - problem.distance(stops_[j], next)
            : detour(problem, pickup_place, pickup) + detour(problem, j, delivery);
    const bool seen = blinks == nullptr || !blinks->chance(kBlink);
    if (seen && extra < best.extra - kGain &&
        behind(there, delivery, next) <= latest_[j + 1] + kGain) {
      room.assign(stops_.begin() + 1, stops_.end() - 1);
      room.insert(room.begin() + static_cast<std::ptrdiff_t>(j), delivery);
      room.insert(room.begin() + static_cast<std::ptrdiff_t>(pickup_place), pickup);
      if (scheduler.is_feasible(room)) best = {extra, pickup_place, j};
    }
    if (j + 2 == stops_.size() || load_[j + 1] + first.load > problem.seats) return;
    time = std::max(problem.stop(next).earliest, behind(time, at, next));
    if (time > latest_[j + 1] + kGain) return;
    ride += problem.distance(at, next) + problem.stop(next).service;
    at = next;
  }
}

const Place& Memo::best_place(const Vehicle& vehicle, int request) {
  Known& known = places_[static_cast<size_t>(request) * kSlots + vehicle.stamp() % kSlots];
  if (known.stamp != vehicle.stamp()) {
    known = {vehicle.stamp(), vehicle.best_place(problem_, scheduler_, request, room_)};
  }
  return known.place;
}

Place Memo::some_place(const Vehicle& vehicle, int request, Rng& blinks) {
  return vehicle.best_place(problem_, scheduler_, request, room_, &blinks);
}

Plan::Plan(const Problem& problem, Memo& memo, int vehicles)
    : problem_(&problem),
      memo_(&memo),
      vehicles_(static_cast<size_t>(std::min(vehicles, problem.requests()))),
      vehicle_of_(static_cast<size_t>(problem.requests()), -1),
      bank_(static_cast<size_t>(problem.requests())) {
  std::iota(bank_.begin(), bank_.end(), 0);
  const uint64_t none = memo.new_stamp();
  for (Vehicle& vehicle : vehicles_) vehicle.set(problem, {}, none);
}

size_t Plan::used() const {
  return static_cast<size_t>(
      std::ranges::count_if(vehicles_, [](const Vehicle& v) { return !v.empty(); }));
}

double Plan::pickup_time(int request) const {
  const auto vehicle = static_cast<size_t>(vehicle_of_[static_cast<size_t>(request)]);
  return vehicles_[vehicle].earliest_at(Problem::pickup_of(request));
}

double Plan::saving(int request) const {
  const auto vehicle = static_cast<size_t>(vehicle_of_[static_cast<size_t>(request)]);
  const RouteView route = vehicles_[vehicle].route();
  double length = 0;
  int at = 0;
  for (const int stop : route) {
    if (Problem::request_of(stop) == request) continue;
    length += problem_->distance(at, stop);
    at = stop;
  }
  return length_of(*problem_, route) - length - problem_->distance(at, 0);
}

std::vector<Route> Plan::routes() const {
  std::vector<Route> all;
  for (const Vehicle& vehicle : vehicles_) {
    if (!vehicle.empty()) all.emplace_back(vehicle.route().begin(), vehicle.route().end());
  }
  return all;
}

void Plan::change(size_t vehicle, RouteView route) {
  distance_ -= length_of(*problem_, vehicles_[vehicle].route());
  vehicles_[vehicle].set(*problem_, route, memo_->new_stamp());
  distance_ += length_of(*problem_, route);
}

void Plan::take_out(const std::vector<int>& requests) {
  std::vector<size_t> changed;
  for (const int request : requests) {
    int& vehicle = vehicle_of_[static_cast<size_t>(request)];
    if (vehicle < 0) continue;
    changed.push_back(static_cast<size_t>(vehicle));
    vehicle = -1;
    bank_.push_back(request);
  }
  std::ranges::sort(changed);
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const size_t vehicle : changed) {
    room_.clear();
    for (const int stop : vehicles_[vehicle].route()) {
      const int of = vehicle_of_[static_cast<size_t>(Problem::request_of(stop))];
      if (of == static_cast<int>(vehicle)) room_.push_back(stop);
    }
    change(vehicle, room_);
  }
}

void Plan::dissolve_smallest() {
  size_t smallest = vehicles_.size();
  for (size_t i = 0; i < vehicles_.size(); ++i) {
    const bool smaller = smallest == vehicles_.size() ||
                         vehicles_[i].route().size() < vehicles_[smallest].route().size();
    if (!vehicles_[i].empty() && smaller) smallest = i;
  }
  std::vector<int> requests;
  for (const int stop : vehicles_[smallest].route()) {
    if (Problem::is_pickup(stop)) requests.push_back(Problem::request_of(stop));
  }
  take_out(requests);
  // The empty ones go, this one among them.
  std::vector<Vehicle> left;
  for (size_t i = 0; i < vehicles_.size(); ++i) {
    if (vehicles_[i].empty()) continue;
    for (const int stop : vehicles_[i].route()) {
      vehicle_of_[static_cast<size_t>(Problem::request_of(stop))] = static_cast<int>(left.size());
    }
    left.push_back(vehicles_[i]);
  }
  vehicles_ = std::move(left);
}

void Plan::ask(int request, const Insertion& how, Rng& rng) {
  offers_.clear();
  bool empty = false;
  for (size_t i = 0; i < vehicles_.size(); ++i) {
    const Vehicle& vehicle = vehicles_[i];
    if (vehicle.empty() && std::exchange(empty, true)) continue;
    const Place place =
        how.blinks ? memo_->some_place(vehicle, request, rng) : memo_->best_place(vehicle, request);
    if (place.extra == kNoLimit) continue;
    const double blur = how.noise > 0 ? 1 + how.noise * (2 * rng.uniform() - 1) : 1;
    offers_.push_back({place.extra * blur, i, place});
  }
}

void Plan::insert_bank(const Insertion& how, Rng& rng) {
  constexpr double kNowhereElse = 1e6;  // before all who have a choice
  constexpr size_t kNobody = static_cast<size_t>(-1);
  std::vector<int> waiting;  // that found no place
  while (!bank_.empty()) {
    stop_if_interrupted();  // all requests of a large problem take long
    double most = -kNoLimit;
    size_t chosen = kNobody;
    Offer best;
    for (size_t i = 0; i < bank_.size();) {
      ask(bank_[i], how, rng);
      if (offers_.empty()) {  // nor will it find one when there is less room
        waiting.push_back(bank_[i]);
        bank_.erase(bank_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      const auto looked_at = std::min(static_cast<size_t>(how.regret), offers_.size());
      std::ranges::partial_sort(offers_, offers_.begin() + static_cast<std::ptrdiff_t>(looked_at),
                                {}, &Offer::cost);
      double loss = -offers_[0].cost;
      if (how.regret > 1) {
        loss = static_cast<double>(static_cast<size_t>(how.regret) - looked_at) * kNowhereElse -
               offers_[0].cost * 1e-6;
        for (size_t k = 1; k < looked_at; ++k) loss += offers_[k].cost - offers_[0].cost;
      }
      if (loss > most) {
        most = loss;
        chosen = i;
        best = offers_[0];
      }
      ++i;
    }
    if (chosen == kNobody) break;
    const int request = bank_[chosen];
    bank_.erase(bank_.begin() + static_cast<std::ptrdiff_t>(chosen));
    insert(request, best.vehicle, best.place);
  }
  bank_.insert(bank_.end(), waiting.begin(), waiting.end());
}

void Plan::insert(int request, size_t vehicle, const Place& place) {
  const RouteView route = vehicles_[vehicle].route();
  const int pickup = Problem::pickup_of(request);
  room_.assign(route.begin(), route.end());
  room_.insert(room_.begin() + static_cast<std::ptrdiff_t>(place.delivery), pickup + 1);
  room_.insert(room_.begin() + static_cast<std::ptrdiff_t>(place.pickup), pickup);
  change(vehicle, room_);
  vehicle_of_[static_cast<size_t>(request)] = static_cast<int>(vehicle);
}

}  // namespace flotilla::dvrp::standard
