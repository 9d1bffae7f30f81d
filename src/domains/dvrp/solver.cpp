#include "flotilla/domains/dvrp/solver.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "flotilla/core/clock.h"

namespace flotilla::dvrp {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Each request as the only version of itself.
Versions alone(const Instance& instance) {
  Versions versions;
  for (int r = 0; r < static_cast<int>(instance.requests.size()); ++r) versions.push_back({r});
  return versions;
}

// The instance by nodes, in tables; a customer is served by one of his requests.
struct Problem {
  explicit Problem(const Instance& instance) : Problem(instance, alone(instance)) {}
  Problem(const Instance& instance, Versions of_customers)
      : nodes(instance.nodes()), versions(std::move(of_customers)) {
    for (int i = 0; i < nodes; ++i) {
      windows.push_back(instance.window(i));
      for (int j = 0; j < nodes; ++j) minutes.push_back(instance.minutes(i, j));
    }
  }
  int customers() const { return static_cast<int>(versions.size()); }
  const std::vector<int>& versions_of(int customer) const {
    return versions[static_cast<size_t>(customer)];
  }
  float way(int from, int to) const {
    return minutes[static_cast<size_t>(from) * static_cast<size_t>(nodes) +
                   static_cast<size_t>(to)];
  }
  const Window& window(int node) const { return windows[static_cast<size_t>(node)]; }

  int nodes;
  Versions versions;
  std::vector<Window> windows;
  std::vector<float> minutes;
};

// A vehicle's nodes with the depot at both ends; when it is where, and how late it may be there.
class Vehicle {
 public:
  explicit Vehicle(const Problem& problem, const Route& route = {})
      : problem_(&problem), nodes_{0} {
    nodes_.insert(nodes_.end(), route.begin(), route.end());
    nodes_.push_back(0);
    update();
  }

  bool empty() const { return nodes_.size() == 2; }
  const std::vector<int>& nodes() const { return nodes_; }
  Route route() const { return {nodes_.begin() + 1, nodes_.end() - 1}; }

  struct Place {
    double extra = kNever;           // minutes
    size_t pickup = 0, dropoff = 0;  // behind which nodes, of those that are there now
  };
  // The cheapest place for a request.
  Place best_place(int request) const;
  void insert(int request, const Place& place);
  void remove(int request);
  // What it saves to leave a request out.
  double saving(int request) const;
  // Where a detour is shorter than the direct way, leaving one out can make others late.
  bool in_time() const { return in_time_; }

 private:
  void update();
  // Places of a drop-off, for a pickup behind node `i`.
  void try_dropoffs(size_t i, int pickup, Place& best) const;
  double way(int from, int to) const { return static_cast<double>(problem_->way(from, to)); }
  double detour(int from, int over, int to) const {
    return way(from, over) + way(over, to) - way(from, to);
  }
  float reach(int from, float time, int to) const {
    return std::max(time + problem_->way(from, to), problem_->window(to).early);
  }

  const Problem* problem_;
  std::vector<int> nodes_;
  std::vector<float> start_;   // of service
  std::vector<float> latest_;  // at which service may start so that nothing behind it is late
  std::vector<int> load_;      // behind it
  bool in_time_ = true;
};

void Vehicle::update() {
  const size_t n = nodes_.size();
  start_.assign(n, 0);
  latest_.assign(n, kDay);
  load_.assign(n, 0);
  in_time_ = true;
  for (size_t i = 1; i < n; ++i) {
    start_[i] = reach(nodes_[i - 1], start_[i - 1], nodes_[i]);
    in_time_ = in_time_ && start_[i] <= problem_->window(nodes_[i]).late;
    const bool depot = nodes_[i] == 0;
    load_[i] = load_[i - 1] + (depot ? 0 : Instance::is_pickup(nodes_[i]) ? 1 : -1);
  }
  for (size_t i = n - 1; i-- > 0;) {
    latest_[i] = std::min(problem_->window(nodes_[i]).late,
                          latest_[i + 1] - problem_->way(nodes_[i], nodes_[i + 1]));
  }
}

Vehicle::Place Vehicle::best_place(int request) const {
  Place best;
  const int pickup = Instance::pickup_of(request);
  for (size_t i = 0; i + 1 < nodes_.size(); ++i) {
    if (load_[i] + 1 > kCapacity) continue;
    try_dropoffs(i, pickup, best);
  }
  return best;
}

void Vehicle::try_dropoffs(size_t i, int pickup, Place& best) const {
  const int dropoff = pickup + 1;
  float time = reach(nodes_[i], start_[i], pickup);
  if (time > problem_->window(pickup).late) return;
  const double of_pickup = detour(nodes_[i], pickup, nodes_[i + 1]);
  int at = pickup;
  for (size_t k = i;; ++k) {
    const int next = nodes_[k + 1];
    const float there = reach(at, time, dropoff);
    if (there > problem_->window(dropoff).late) return;  // and later on it is later still
    if (there + problem_->way(dropoff, next) <= latest_[k + 1]) {
      const double extra = k == i ? way(nodes_[i], pickup) + way(pickup, dropoff) +
                                        way(dropoff, next) - way(nodes_[i], next)
                                  : of_pickup + detour(at, dropoff, next);
      if (extra < best.extra) best = {extra, i, k};
    }
    if (next == 0 && k + 2 == nodes_.size()) return;
    time = reach(at, time, next);
    if (time > latest_[k + 1] || load_[k + 1] + 1 > kCapacity) return;
    at = next;
  }
}

void Vehicle::insert(int request, const Place& place) {
  const int pickup = Instance::pickup_of(request);
  const auto behind = [this](size_t i) {
    return nodes_.begin() + static_cast<std::ptrdiff_t>(i) + 1;
  };
  nodes_.insert(behind(place.dropoff), pickup + 1);
  nodes_.insert(behind(place.pickup), pickup);
  update();
}

void Vehicle::remove(int request) {
  const int pickup = Instance::pickup_of(request);
  std::erase_if(nodes_, [pickup](int node) { return node == pickup || node == pickup + 1; });
  update();
}

double Vehicle::saving(int request) const {
  const int pickup = Instance::pickup_of(request);
  const auto i = static_cast<size_t>(std::ranges::find(nodes_, pickup) - nodes_.begin());
  const auto j = static_cast<size_t>(std::ranges::find(nodes_, pickup + 1) - nodes_.begin());
  if (j == i + 1) {
    return way(nodes_[i - 1], pickup) + way(pickup, pickup + 1) + way(pickup + 1, nodes_[j + 1]) -
           way(nodes_[i - 1], nodes_[j + 1]);
  }
  return detour(nodes_[i - 1], pickup, nodes_[i + 1]) +
         detour(nodes_[j - 1], pickup + 1, nodes_[j + 1]);
}

class Plan {
 public:
  explicit Plan(const Problem& problem)
      : problem_(&problem),
        vehicle_of_(problem.versions.size(), -1),
        request_of_(problem.versions.size(), -1) {}

  // REQUIRES: one version of each request.
  Plan(const Problem& problem, const std::vector<Route>& routes) : Plan(problem) {
    for (const Route& route : routes) {
      vehicles_.emplace_back(problem, route);
      for (const int node : route) {
        of(Instance::request_of(node)) = static_cast<int>(vehicles_.size()) - 1;
      }
    }
    std::iota(request_of_.begin(), request_of_.end(), 0);
    keep_one_empty();
  }

  double cost() const { return cost_; }
  std::vector<Route> routes() const {
    std::vector<Route> routes;
    for (const Vehicle& vehicle : vehicles_) {
      if (!vehicle.empty()) routes.push_back(vehicle.route());
    }
    return routes;
  }

  bool remove_all(const std::vector<int>& customers) {
    for (const int customer : customers) {
      Vehicle& vehicle = vehicles_[static_cast<size_t>(of(customer))];
      const int request = request_of(customer);
      cost_ -= vehicle.saving(request);
      vehicle.remove(request);
      of(customer) = -1;
    }
    return std::ranges::all_of(vehicles_, &Vehicle::in_time);
  }
  // The version that is served.
  int request_of(int customer) const { return request_of_[static_cast<size_t>(customer)]; }
  double saving(int customer) const {
    const int vehicle = vehicle_of_[static_cast<size_t>(customer)];
    return vehicles_[static_cast<size_t>(vehicle)].saving(request_of(customer));
  }
  bool together(int a, int b) const {
    return vehicle_of_[static_cast<size_t>(a)] == vehicle_of_[static_cast<size_t>(b)];
  }

  // Puts customers where they cost least, in the version that does, those first that would suffer
  // most from waiting: the difference between their best and second-best vehicle. `noise` above 0
  // blurs the costs.
  bool insert_all(std::vector<int> customers, double noise, Rng& rng);

  // Each takes place if it shortens the routes. REQUIRES: one version of each request.
  bool relocate(int request);
  bool exchange(int a, int b);

 private:
  struct Choice {
    Vehicle::Place place;
    int request = -1;
  };
  // The cheapest place in a vehicle for any version. Many cost the same, and which of them leaves
  // room for others shows later only: the first one tried decides.
  Choice best_choice(const Vehicle& vehicle, const std::vector<int>& versions, size_t first) const {
    Choice best;
    for (size_t i = 0; i < versions.size(); ++i) {
      const int request = versions[(first + i) % versions.size()];
      const Vehicle::Place place = vehicle.best_place(request);
      if (place.extra < best.place.extra) best = {place, request};
    }
    return best;
  }

  int& of(int customer) { return vehicle_of_[static_cast<size_t>(customer)]; }
  // An empty vehicle is always there.
  void keep_one_empty() {
    const bool any = std::ranges::any_of(vehicles_, [](const Vehicle& v) { return v.empty(); });
    if (!any) vehicles_.emplace_back(*problem_);
  }

  const Problem* problem_;
  std::vector<Vehicle> vehicles_;
  std::vector<int> vehicle_of_;  // by customer; -1: none
  std::vector<int> request_of_;  // by customer
  double cost_ = 0;
};

bool Plan::insert_all(std::vector<int> customers, double noise, Rng& rng) {
  while (!customers.empty()) {
    keep_one_empty();
    double most_regret = -kNever;
    size_t chosen = 0, into = 0;
    Choice what;
    for (size_t c = 0; c < customers.size(); ++c) {
      const std::vector<int>& versions = problem_->versions_of(customers[c]);
      const size_t first_version =
          versions.size() > 1 ? rng.below(static_cast<uint32_t>(versions.size())) : 0;
      double first = kNever, second = kNever;
      size_t vehicle = 0;
      Choice choice;
      bool tried_empty = false;
      for (size_t v = 0; v < vehicles_.size(); ++v) {
        if (vehicles_[v].empty() && std::exchange(tried_empty, true)) continue;
        const Choice here = best_choice(vehicles_[v], versions, first_version);
        if (here.place.extra == kNever) continue;
        const double extra = here.place.extra + (noise > 0 ? noise * (rng.uniform() - 0.5) : 0);
        if (extra < first) {
          second = std::exchange(first, extra);
          vehicle = v;
          choice = here;
        } else {
          second = std::min(second, extra);
        }
      }
      if (first == kNever) return false;
      const double regret = second == kNever ? 1e6 - first : second - first;
      if (regret <= most_regret) continue;
      most_regret = regret;
      chosen = c;
      into = vehicle;
      what = choice;
    }
    const int customer = customers[chosen];
    vehicles_[into].insert(what.request, what.place);
    of(customer) = static_cast<int>(into);
    request_of_[static_cast<size_t>(customer)] = what.request;
    cost_ += what.place.extra;
    customers.erase(customers.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return true;
}

constexpr double kLess = 1e-6;  // minutes that count

bool Plan::relocate(int request) {
  const auto from = static_cast<size_t>(of(request));
  const double saved = vehicles_[from].saving(request);
  const Vehicle before = vehicles_[from];
  vehicles_[from].remove(request);
  Vehicle::Place best;
  size_t into = from;
  bool tried_empty = false;
  for (size_t v = 0; v < vehicles_.size() && vehicles_[from].in_time(); ++v) {
    if (vehicles_[v].empty() && std::exchange(tried_empty, true)) continue;
    const Vehicle::Place place = vehicles_[v].best_place(request);
    if (place.extra >= best.extra) continue;
    best = place;
    into = v;
  }
  if (best.extra >= saved - kLess) {
    vehicles_[from] = before;
    return false;
  }
  vehicles_[into].insert(request, best);
  of(request) = static_cast<int>(into);
  cost_ += best.extra - saved;
  keep_one_empty();
  return true;
}

bool Plan::exchange(int a, int b) {
  const auto of_a = static_cast<size_t>(of(a)), of_b = static_cast<size_t>(of(b));
  const double saved = vehicles_[of_a].saving(a) + vehicles_[of_b].saving(b);
  const Vehicle before_a = vehicles_[of_a], before_b = vehicles_[of_b];
  vehicles_[of_a].remove(a);
  vehicles_[of_b].remove(b);
  if (vehicles_[of_a].in_time() && vehicles_[of_b].in_time()) {
    const Vehicle::Place place_a = vehicles_[of_b].best_place(a);
    const Vehicle::Place place_b = vehicles_[of_a].best_place(b);
    const double extra = place_a.extra + place_b.extra;
    if (extra < saved - kLess) {
      vehicles_[of_b].insert(a, place_a);
      vehicles_[of_a].insert(b, place_b);
      std::swap(of(a), of(b));
      cost_ += extra - saved;
      return true;
    }
  }
  vehicles_[of_a] = before_a;
  vehicles_[of_b] = before_b;
  return false;
}

// Which customers to take out and put in again.
class Ruin {
 public:
  Ruin(const Problem& problem, Rng& rng) : problem_(problem), rng_(rng) {}

  std::vector<int> choose(const Plan& plan) {
    const int customers = problem_.customers();
    const int most = std::clamp(static_cast<int>(0.4 * customers), 2, 12);
    const int count = std::min(customers, 1 + static_cast<int>(below(most)));
    switch (rng_.below(3)) {
      case 0:
        return by([this](int) { return rng_.uniform(); }, count);
      case 1: {  // those alike a random one
        const int seed = static_cast<int>(below(customers));
        return by([&](int c) { return distance(plan, seed, c) * blur(); }, count);
      }
      default:  // those that cost most
        return by([&](int c) { return -plan.saving(c) * blur(); }, count);
    }
  }

 private:
  uint32_t below(int n) { return rng_.below(static_cast<uint32_t>(n)); }
  double blur() { return 0.5 + rng_.uniform(); }

  double distance(const Plan& plan, int a, int b) const {
    const int p = Instance::pickup_of(plan.request_of(a));
    const int q = Instance::pickup_of(plan.request_of(b));
    const auto way = [this](int i, int j) { return static_cast<double>(problem_.way(i, j)); };
    const auto apart = [this](int i, int j) {
      return static_cast<double>(std::abs(problem_.window(i).early - problem_.window(j).early));
    };
    return way(p, q) + way(p + 1, q + 1) + 0.3 * (apart(p, q) + apart(p + 1, q + 1)) +
           (plan.together(a, b) ? 0 : 10);
  }

  template <class Key>
  std::vector<int> by(const Key& key, int count) {
    std::vector<std::pair<double, int>> all;
    for (int c = 0; c < problem_.customers(); ++c) all.emplace_back(key(c), c);
    std::ranges::sort(all);
    std::vector<int> chosen;
    for (int i = 0; i < count; ++i) chosen.push_back(all[static_cast<size_t>(i)].second);
    return chosen;
  }

  const Problem& problem_;
  Rng& rng_;
};

// Simulated annealing: a worse plan is taken with a probability that falls with time.
bool is_taken(double change, double temperature, Rng& rng) {
  return change <= 0 || rng.uniform() < std::exp(-change / temperature);
}

constexpr double kLastTemperature = 1e-3;

Rng rng_of(uint64_t seed) { return Rng(seed, stream_of(Purpose::kSearch, uint64_t{3} << 40u)); }

// Takes customers out and puts them in again, from a temperature in minutes downwards.
Solution search(const Instance& instance, const Problem& problem, const Plan& first,
                const SolveOptions& options, double temperature, Rng& rng) {
  Plan current = first, best = first;
  Ruin ruin(problem, rng);
  const uint64_t begin = now_ns();
  int64_t i = 0;
  const auto progress = [&] {
    return options.seconds > 0 ? static_cast<double>(now_ns() - begin) * 1e-9 / options.seconds
                               : static_cast<double>(i) / options.iterations;
  };
  const bool any = problem.customers() > 0;
  for (double part = progress(); part < 1 && any; ++i, part = progress()) {
    const double warmth = temperature * std::pow(kLastTemperature / temperature, part);
    Plan next = current;
    const std::vector<int> out = ruin.choose(current);
    const double noise = rng.chance(0.5) ? 4 : 0;
    if (!next.remove_all(out) || !next.insert_all(out, noise, rng)) continue;
    if (is_taken(next.cost() - current.cost(), warmth, rng)) current = std::move(next);
    if (current.cost() < best.cost() - 1e-9) best = current;
  }
  Solution solution{.routes = best.routes(), .cost = 0, .iterations = i};
  solution.cost = cost_of(instance, solution.routes);
  return solution;
}

}  // namespace

Solution solve(const Instance& instance, const SolveOptions& options) {
  return solve(instance, alone(instance), options);
}

Solution solve(const Instance& instance, const Versions& versions, const SolveOptions& options) {
  const Problem problem(instance, versions);
  Rng rng = rng_of(options.seed);
  std::vector<int> all(versions.size());
  std::iota(all.begin(), all.end(), 0);
  Plan first(problem);
  if (!first.insert_all(all, 0, rng)) return {.routes = {}, .cost = kNever, .iterations = 0};
  const double temperature = 0.01 * first.cost();
  return search(instance, problem, first, options, temperature, rng);
}

Solution refine(const Instance& instance, const std::vector<Route>& routes, int iterations) {
  const Problem problem(instance);
  const SolveOptions options{.iterations = iterations, .seconds = 0, .seed = 0};
  Rng rng = rng_of(options.seed);
  return search(instance, problem, Plan(problem, routes), options, kLastTemperature, rng);
}

Solution improve(const Instance& instance, const std::vector<Route>& routes, int passes) {
  // Requests at other times of the day do not meet.
  constexpr float kApart = 60;
  const Problem problem(instance);
  Plan plan(problem, routes);
  const int requests = problem.customers();
  Solution solution;
  bool better = true;
  for (; better && solution.iterations < passes; ++solution.iterations) {
    better = false;
    for (int a = 0; a < requests; ++a) better = plan.relocate(a) || better;
    for (int a = 0; a < requests; ++a) {
      for (int b = a + 1; b < requests; ++b) {
        const float apart = problem.window(Instance::pickup_of(a)).early -
                            problem.window(Instance::pickup_of(b)).early;
        if (std::abs(apart) > kApart || plan.together(a, b)) continue;
        better = plan.exchange(a, b) || better;
      }
    }
  }
  solution.routes = plan.routes();
  solution.cost = cost_of(instance, solution.routes);
  return solution;
}

}  // namespace flotilla::dvrp
