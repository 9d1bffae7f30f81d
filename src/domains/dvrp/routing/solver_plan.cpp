#include "flotilla/domains/dvrp/routing/solver_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace flotilla::dvrp {
namespace {

bool is_on_minutes(const Window& window) {
  return window.early == std::floor(window.early) && window.late == std::floor(window.late);
}

// Of whole minutes floats are exact, and what they lose of other seconds adds up along a route. All
// times are whole seconds: with half a second more, who is in time stays so, and who is late, too.
void allow_for_rounding(std::vector<Window>& windows) {
  constexpr float kHalfSecond = 0.5F / 60;
  if (std::ranges::all_of(windows, is_on_minutes)) return;
  for (Window& window : windows) window.late += kHalfSecond;
}

}  // namespace

void Problem::reserve(int requests) {
  const auto customers = static_cast<size_t>(requests), nodes = 2 * customers + 1;
  versions_.reserve(customers);
  version_ends_.reserve(customers);
  cells_.reserve(nodes);
  windows_.reserve(nodes);
  minutes_.reserve(nodes * nodes);
  rides_.reserve(requests);
}

void Problem::set(const Instance& instance) {
  versions_.resize(instance.requests.size());
  version_ends_.resize(instance.requests.size());
  std::iota(versions_.begin(), versions_.end(), 0);
  std::iota(version_ends_.begin(), version_ends_.end(), size_t{1});
  set_nodes(instance);
}

void Problem::set(const Instance& instance, const Versions& versions) {
  versions_.clear();
  version_ends_.clear();
  for (const std::vector<int>& each : versions) {
    versions_.insert(versions_.end(), each.begin(), each.end());
    version_ends_.push_back(versions_.size());
  }
  set_nodes(instance);
}

void Problem::set_nodes(const Instance& instance) {
  rides_.set(instance);
  nodes_ = instance.nodes();
  const auto count = static_cast<size_t>(nodes_);
  cells_.resize(count);
  windows_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    cells_[i] = instance.cell(static_cast<int>(i));
    windows_[i] = instance.window(static_cast<int>(i));
  }
  allow_for_rounding(windows_);
  minutes_.resize(count * count);
  float* minutes = minutes_.data();
  for (const int from : cells_) {
    for (const int to : cells_) *minutes++ = instance.city->minutes(from, to);
  }
}

void Vehicle::set(Problem& problem, RouteView route) {
  problem_ = &problem;
  stops_.assign(route.size() + 2, Stop{});
  stops_.back().latest = problem.window(0).late;
  for (size_t i = 0; i < route.size(); ++i) stops_[i + 1].node = route[i];
  in_time_ = true;
  first_changed_ = kNone;
  last_changed_ = 0;
  stops_changed(1, stops_.size() - 1);
  update();
}

// Plans are copied in every iteration of a search, and most of their vehicles have not changed.
Vehicle& Vehicle::operator=(const Vehicle& other) {
  if (stamp_ == other.stamp_) return *this;
  problem_ = other.problem_;
  stops_ = other.stops_;
  served_ = other.served_;
  stamp_ = other.stamp_;
  in_time_ = other.in_time_;
  first_changed_ = other.first_changed_;
  last_changed_ = other.last_changed_;
  return *this;
}

void Vehicle::add_to(Routes& routes) const {
  for (size_t i = 1; i + 1 < stops_.size(); ++i) routes.add_node(stops_[i].node);
  routes.end_route();
}

void Vehicle::stops_changed(size_t first, size_t last) {
  stamp_ = problem_->new_stamp();
  first_changed_ = std::min(first_changed_, first);
  last_changed_ = std::min(std::max(last_changed_, last), stops_.size() - 1);
}

void Vehicle::update() {
  if (first_changed_ == kNone) return;
  update_starts();
  update_latest();
  in_time_ = in_time_ && keep_limits();
  first_changed_ = kNone;
  last_changed_ = 0;
}

// Waiting absorbs a change: behind a stop whose time is as before, all are.
void Vehicle::update_starts() {
  const size_t end = stops_.size();
  const bool all = !in_time_;  // who was late is not known
  bool in_time = true;
  for (size_t i = all ? 1 : first_changed_; i < end; ++i) {
    const Stop& before = stops_[i - 1];
    Stop& stop = stops_[i];
    const Window& window = problem_->window(stop.node);
    const float start =
        std::max(before.start + problem_->way(before.node, stop.node), window.early);
    const bool as_before = start == stop.start;
    stop.start = start;
    stop.load = before.load + (stop.node == 0 ? 0 : Instance::is_pickup(stop.node) ? 1 : -1);
    in_time = in_time && start <= window.late;
    if (as_before && i >= last_changed_ && !all) break;
  }
  in_time_ = in_time;
}

void Vehicle::update_latest() {
  for (size_t i = last_changed_; i-- > 0;) {
    const Stop& next = stops_[i + 1];
    Stop& stop = stops_[i];
    const float latest = std::min(problem_->window(stop.node).late,
                                  next.latest - problem_->way(stop.node, next.node));
    const bool as_before = latest == stop.latest;
    stop.latest = latest;
    if (as_before && i < first_changed_) break;
  }
}

bool Vehicle::keep_limits() {
  RideSchedule& rides = problem_->rides();
  if (!rides.limited()) return true;
  rides.start();
  for (size_t i = 1; i + 1 < stops_.size(); ++i) rides.visit(stops_[i].node);
  if (!rides.finish()) return false;
  served_.resize(stops_.size());
  for (size_t i = 0; i < stops_.size(); ++i) served_[i] = rides.seconds(i);
  return true;
}

bool Vehicle::keeps_limits_with(int pickup, const Stop* behind, const Stop* before) const {
  RideSchedule& rides = problem_->rides();
  if (!rides.limited()) return true;
  // Where nobody is on board, what comes later changes nothing of what was before.
  const Stop* first = in_time_ ? behind : stops_.data();
  while (first->load > 0) --first;
  rides.start(first->node, first == stops_.data() ? 0 : served_[index_of(first)]);
  const Stop* const last = &stops_.back();
  for (const Stop* stop = first;; ++stop) {
    if (stop == before) rides.visit(pickup + 1);
    if (stop == last) return rides.finish();
    if (stop != first) rides.visit(stop->node);
    if (stop == behind) rides.visit(pickup);
  }
}

Place Vehicle::best_place(int request) const {
  Place best;
  const int pickup = Instance::pickup_of(request);
  const Window window = problem_->window(pickup);
  const Stop* stop = stops_.data();
  const Stop* const last = stop + stops_.size() - 1;
  // Along the way it only gets later, so the places in time for the pickup lie side by side.
  while (stop < last && stop[1].latest < window.early) ++stop;
  for (; stop < last && stop->start <= window.late; ++stop) {
    if (stop->load < kCapacity) try_dropoffs(stop, pickup, best);
  }
  return best;
}

void Vehicle::try_dropoffs(const Stop* before, int pickup, Place& best) const {
  float time = reach(before->node, before->start, pickup);
  // Beyond `latest`, neither the next stop nor the drop-off ahead of it can be in time.
  if (time > problem_->window(pickup).late || time > before[1].latest) return;
  const int dropoff = pickup + 1;
  const Window window = problem_->window(dropoff);
  const float* const from_dropoff = problem_->ways_from(dropoff);
  const Stop* const last = &stops_.back();
  int at = pickup;
  double of_pickup = 0;
  for (const Stop* next = before + 1;; ++next) {
    const float* const from_here = problem_->ways_from(at);
    const float there = std::max(time + from_here[dropoff], window.early);
    if (there > window.late) return;  // and later on it is later still
    if (there + from_dropoff[next->node] <= next->latest) {
      const double extra = at == pickup
                               ? way(before->node, pickup) + way(pickup, dropoff) +
                                     way(dropoff, next->node) - way(before->node, next->node)
                               : of_pickup + detour(at, dropoff, next->node);
      if (extra < best.extra && keeps_limits_with(pickup, before, next)) {
        best = {extra, index_of(before), index_of(next) - 1};
      }
    }
    if (next == last) return;
    time = std::max(time + from_here[next->node], problem_->window(next->node).early);
    if (time > next->latest || next->load >= kCapacity) return;
    if (at == pickup) of_pickup = detour(before->node, pickup, next->node);
    at = next->node;
  }
}

void Vehicle::insert(int request, const Place& place) {
  const int pickup = Instance::pickup_of(request);
  const size_t count = stops_.size();
  stops_.resize(count + 2);
  Stop* stops = stops_.data();
  std::move_backward(stops + place.dropoff + 1, stops + count, stops + count + 2);
  std::move_backward(stops + place.pickup + 1, stops + place.dropoff + 1,
                     stops + place.dropoff + 2);
  stops[place.pickup + 1].node = pickup;
  stops[place.dropoff + 2].node = pickup + 1;
  stops_changed(place.pickup + 1, place.dropoff + 3);
  update();
}

Vehicle::Ends Vehicle::ends_of(int request) const {
  const int pickup = Instance::pickup_of(request);
  size_t i = 1;
  while (stops_[i].node != pickup) ++i;
  size_t j = i + 1;
  while (stops_[j].node != pickup + 1) ++j;
  return {i, j};
}

double Vehicle::saving(int request) const { return saving(request, ends_of(request)); }

double Vehicle::saving(int request, Ends at) const {
  const int pickup = Instance::pickup_of(request);
  const auto [i, j] = at;
  if (j == i + 1) {
    return way(stops_[i - 1].node, pickup) + way(pickup, pickup + 1) +
           way(pickup + 1, stops_[j + 1].node) - way(stops_[i - 1].node, stops_[j + 1].node);
  }
  return detour(stops_[i - 1].node, pickup, stops_[i + 1].node) +
         detour(stops_[j - 1].node, pickup + 1, stops_[j + 1].node);
}

double Vehicle::take_out(int request) {
  const Ends at = ends_of(request);
  const double saved = saving(request, at);
  Stop* stops = stops_.data();
  std::move(stops + at.pickup + 1, stops + at.dropoff, stops + at.pickup);
  std::move(stops + at.dropoff + 1, stops + stops_.size(), stops + at.dropoff - 1);
  stops_.resize(stops_.size() - 2);
  stops_changed(at.pickup, at.dropoff - 1);
  return saved;
}

void Memo::reserve(int requests) {
  fit(requests);
  for (Known<Vehicle>& rest : rests_) rest.value.reserve(requests);
  bids_.reserve(requests);
}

void Memo::fit(int requests) {
  const auto count = static_cast<size_t>(requests);
  if (count <= savings_.size()) return;
  places_.resize(count * kSlots);
  savings_.resize(count);
  rests_.resize(count);
}

double Memo::saving(const Vehicle& vehicle, int request) {
  Known<double>& known = savings_[static_cast<size_t>(request)];
  if (known.stamp != vehicle.stamp()) known = {vehicle.stamp(), vehicle.saving(request)};
  return known.value;
}

const Vehicle& Memo::without(const Vehicle& vehicle, int request) {
  Known<Vehicle>& known = rests_[static_cast<size_t>(request)];
  if (std::exchange(known.stamp, vehicle.stamp()) != vehicle.stamp()) {
    known.value = vehicle;
    known.value.take_out(request);
    known.value.update();
  }
  return known.value;
}

void Bids::reserve(int customers) {
  const auto count = static_cast<size_t>(customers);
  rows_.reserve(count);
  bids_.reserve(count * (count + 1 + count));
}

void Bids::clear(size_t customers, size_t vehicles) {
  stride_ = vehicles;
  rows_.resize(customers);
  std::iota(rows_.begin(), rows_.end(), size_t{0});
  bids_.assign(customers * vehicles, Bid{});
}

Bids::Best Bids::best(size_t customer, size_t vehicles) const {
  Best best;
  const Bid* bids = bids_.data() + rows_[customer] * stride_;
  for (size_t v = 0; v < vehicles; ++v) {
    const double minutes = bids[v].minutes;
    if (minutes < best.first) {
      best = {.vehicle = v, .first = minutes, .second = best.first};
    } else {
      best.second = std::min(best.second, minutes);
    }
  }
  return best;
}

// The vehicles that the other one does not have are left as they are.
Plan& Plan::operator=(const Plan& other) {
  problem_ = other.problem_;
  memo_ = other.memo_;
  if (vehicles_.size() < other.count_) vehicles_.resize(other.count_);
  std::ranges::copy(other.vehicles(), vehicles_.begin());
  count_ = other.count_;
  vehicle_of_ = other.vehicle_of_;
  request_of_ = other.request_of_;
  cost_ = other.cost_;
  return *this;
}

void Plan::reserve(int requests) {
  const auto customers = static_cast<size_t>(requests);
  if (vehicles_.size() < customers + 1) vehicles_.resize(customers + 1);
  for (Vehicle& vehicle : vehicles_) vehicle.reserve(requests);
  vehicle_of_.reserve(customers);
  request_of_.reserve(customers);
}

void Plan::clear() {
  count_ = 0;
  vehicle_of_.assign(static_cast<size_t>(problem_->customers()), -1);
  request_of_.assign(static_cast<size_t>(problem_->customers()), -1);
  cost_ = 0;
}

void Plan::set(const Routes& routes) {
  clear();
  for (const RouteView route : routes) {
    for (const int node : route) of(Instance::request_of(node)) = static_cast<int>(count_);
    add_vehicle(route);
  }
  std::iota(request_of_.begin(), request_of_.end(), 0);
  keep_one_empty();
}

void Plan::write(Routes& routes) const {
  routes.clear();
  for (const Vehicle& vehicle : vehicles()) {
    if (!vehicle.empty()) vehicle.add_to(routes);
  }
}

void Plan::add_vehicle(RouteView route) {
  if (vehicles_.size() == count_) vehicles_.emplace_back();
  vehicles_[count_++].set(*problem_, route);
}

size_t Plan::keep_one_empty() {
  const auto index = static_cast<size_t>(
      std::ranges::find_if(vehicles(), [](const Vehicle& v) { return v.empty(); }) -
      vehicles().begin());
  if (index == count_) add_vehicle();
  return index;
}

bool Plan::take_out(const std::vector<int>& customers) {
  for (const int customer : customers) {
    cost_ -= vehicles_[static_cast<size_t>(of(customer))].take_out(request_of(customer));
    of(customer) = -1;
  }
  bool in_time = true;
  for (Vehicle& vehicle : vehicles()) {
    vehicle.update();
    in_time = in_time && vehicle.in_time();
  }
  return in_time;
}

Bids::Bid Plan::bid_of(const Vehicle& vehicle, int customer, double noise, Rng& rng) {
  const std::span<const int> versions = problem_->versions_of(customer);
  const size_t count = versions.size();
  const size_t first = count > 1 ? rng.below(static_cast<uint32_t>(count)) : 0;
  Bids::Bid best;
  for (size_t i = 0; i < count; ++i) {
    const int request = versions[first + i < count ? first + i : first + i - count];
    const Place& place = memo_->best_place(vehicle, request);
    if (place.extra < best.minutes) best = {place.extra, request, place};
  }
  if (noise > 0) best.minutes += noise * (rng.uniform() - 0.5);
  return best;
}

void Plan::ask(size_t vehicle, const std::vector<int>& customers, double noise, Rng& rng) {
  for (size_t c = 0; c < customers.size(); ++c) {
    memo_->bids().at(c, vehicle) = bid_of(vehicles_[vehicle], customers[c], noise, rng);
  }
}

// Of the empty vehicles only the first is asked: the others would ask for the same.
bool Plan::insert_all(std::vector<int>& customers, double noise, Rng& rng) {
  Bids& bids = memo_->bids();
  size_t empty = keep_one_empty();
  bids.clear(customers.size(), count_ + customers.size());
  for (size_t v = 0; v < count_; ++v) {
    if (v == empty || !vehicles_[v].empty()) ask(v, customers, noise, rng);
  }
  while (!customers.empty()) {
    double most_regret = -kNever;
    size_t chosen = 0, vehicle = 0;
    for (size_t c = 0; c < customers.size(); ++c) {
      const Bids::Best best = bids.best(c, count_);
      if (best.first == kNever) return false;
      if (best.regret() <= most_regret) continue;
      most_regret = best.regret();
      chosen = c;
      vehicle = best.vehicle;
    }
    const Bids::Bid taken = bids.at(chosen, vehicle);
    insert(customers[chosen], taken.request, vehicle, taken.place);
    cost_ += taken.place.extra;
    customers.erase(customers.begin() + static_cast<std::ptrdiff_t>(chosen));
    bids.erase(chosen);
    ask(vehicle, customers, noise, rng);
    if (vehicle == empty) ask(empty = keep_one_empty(), customers, noise, rng);
  }
  return true;
}

void Plan::insert(int customer, int request, size_t vehicle, const Place& place) {
  vehicles_[vehicle].insert(request, place);
  of(customer) = static_cast<int>(vehicle);
  request_of_[static_cast<size_t>(customer)] = request;
}

constexpr double kLess = 1e-6;  // minutes that count

bool Plan::relocate(int request) {
  const auto from = static_cast<size_t>(of(request));
  const Vehicle& rest = memo_->without(vehicles_[from], request);
  if (!rest.in_time()) return false;
  Place best;
  size_t into = from;
  bool tried_empty = false;
  for (size_t v = 0; v < count_; ++v) {
    const Vehicle& vehicle = v == from ? rest : vehicles_[v];
    if (vehicle.empty() && std::exchange(tried_empty, true)) continue;
    const Place& place = memo_->best_place(vehicle, request);
    if (place.extra >= best.extra) continue;
    best = place;
    into = v;
  }
  const double saved = saving(request);
  if (best.extra >= saved - kLess) return false;
  vehicles_[from] = rest;
  insert(request, request, into, best);
  cost_ += best.extra - saved;
  keep_one_empty();
  return true;
}

bool Plan::exchange(int a, int b) {
  const auto of_a = static_cast<size_t>(of(a)), of_b = static_cast<size_t>(of(b));
  const Vehicle& rest_a = memo_->without(vehicles_[of_a], a);
  const Vehicle& rest_b = memo_->without(vehicles_[of_b], b);
  if (!rest_a.in_time() || !rest_b.in_time()) return false;
  const Place& place_a = memo_->best_place(rest_b, a);
  if (place_a.extra == kNever) return false;
  const Place& place_b = memo_->best_place(rest_a, b);
  const double saved = saving(a) + saving(b);
  const double extra = place_a.extra + place_b.extra;
  if (extra >= saved - kLess) return false;
  vehicles_[of_a] = rest_a;
  vehicles_[of_b] = rest_b;
  insert(a, a, of_b, place_a);
  insert(b, b, of_a, place_b);
  cost_ += extra - saved;
  return true;
}

}  // namespace flotilla::dvrp
