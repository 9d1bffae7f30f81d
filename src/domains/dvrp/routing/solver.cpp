#include "flotilla/domains/dvrp/routing/solver.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/routing/solver_plan.h"

namespace flotilla::dvrp {
namespace {

// Which customers to take out and put in again.
class Ruin {
 public:
  explicit Ruin(const Problem& problem) : problem_(problem) {}

  void reserve(int customers) {
    keys_.reserve(static_cast<size_t>(customers));
    chosen_.reserve(static_cast<size_t>(customers));
  }

  // Until the next call.
  std::vector<int>& choose(const Plan& plan, Rng& rng) {
    const auto below = [&rng](int n) {
      return static_cast<int>(rng.below(static_cast<uint32_t>(n)));
    };
    const auto blur = [&rng] { return 0.5 + rng.uniform(); };
    const int customers = problem_.customers();
    const int most = std::clamp(static_cast<int>(0.4 * customers), 2, 12);
    const int count = std::min(customers, 1 + below(most));
    switch (rng.below(3)) {
      case 0:
        return by([&](int) { return rng.uniform(); }, count);
      case 1: {  // those alike a random one
        const int seed = below(customers);
        return by([&](int c) { return distance(plan, seed, c) * blur(); }, count);
      }
      default:  // those that cost most
        return by([&](int c) { return -plan.saving(c) * blur(); }, count);
    }
  }

 private:
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
  std::vector<int>& by(const Key& key, int count) {
    keys_.clear();
    for (int c = 0; c < problem_.customers(); ++c) keys_.emplace_back(key(c), c);
    std::ranges::partial_sort(keys_, keys_.begin() + count);
    chosen_.clear();
    for (int i = 0; i < count; ++i) chosen_.push_back(keys_[static_cast<size_t>(i)].second);
    return chosen_;
  }

  const Problem& problem_;
  std::vector<std::pair<double, int>> keys_;
  std::vector<int> chosen_;
};

// Simulated annealing: a worse plan is taken with a probability that falls with time.
bool is_taken(double change, double temperature, Rng& rng) {
  return change <= 0 || rng.uniform() < std::exp(-change / temperature);
}

constexpr double kLastTemperature = 1e-3;

Rng rng_of(uint64_t seed) { return Rng(seed, stream_of(Purpose::kSearch, uint64_t{3} << 40u)); }

}  // namespace

class Solver::Search {
 public:
  void reserve(int requests) {
    problem_.reserve(requests);
    memo_.reserve(requests);
    ruin_.reserve(requests);
    for (Plan* plan : {&current_, &best_, &next_}) plan->reserve(requests);
    customers_.reserve(static_cast<size_t>(requests));
  }

  void set(const Instance& instance) {
    problem_.set(instance);
    memo_.fit(problem_.requests());
  }
  void set(const Instance& instance, const Versions& versions) {
    problem_.set(instance, versions);
    memo_.fit(problem_.requests());
  }

  // As those of Solver, of the instance that is set.
  int64_t solve(const Instance& instance, const SolveOptions& options, Tour& tour);
  void append(const Instance& instance, Tour& tour);
  int64_t improve(const Instance& instance, int passes, Tour& tour);
  int64_t refine(const Instance& instance, int iterations, Tour& tour);

 private:
  int64_t search(const Instance& instance, const SolveOptions& options, double temperature,
                 Rng& rng, Tour& tour);
  static void write(const Instance& instance, const Plan& plan, Tour& tour) {
    plan.write(tour.routes);
    tour.cost = cost_of(instance, tour.routes);
  }

  Problem problem_;
  Memo memo_;
  Ruin ruin_{problem_};
  Plan current_{problem_, memo_}, best_{problem_, memo_}, next_{problem_, memo_};
  std::vector<int> customers_;
};

// Takes customers out of the current plan and puts them in again, from a temperature in minutes
// downwards.
int64_t Solver::Search::search(const Instance& instance, const SolveOptions& options,
                               double temperature, Rng& rng, Tour& tour) {
  best_ = current_;
  const uint64_t begin = now_ns();
  int64_t i = 0;
  const auto progress = [&] {
    return options.seconds > 0 ? seconds_since(begin) / options.seconds
                               : static_cast<double>(i) / options.iterations;
  };
  const bool any = problem_.customers() > 0;
  for (double part = progress(); part < 1 && any; ++i, part = progress()) {
    if (options.stoppable && interrupted()) break;
    const double warmth = temperature * std::pow(kLastTemperature / temperature, part);
    next_ = current_;
    std::vector<int>& out = ruin_.choose(current_, rng);
    const double noise = rng.chance(0.5) ? 4 : 0;
    if (!next_.take_out(out) || !next_.insert_all(out, noise, rng)) continue;
    if (is_taken(next_.cost() - current_.cost(), warmth, rng)) current_ = next_;
    if (current_.cost() < best_.cost() - 1e-9) best_ = current_;
  }
  write(instance, best_, tour);
  return i;
}

int64_t Solver::Search::solve(const Instance& instance, const SolveOptions& options, Tour& tour) {
  Rng rng = rng_of(options.seed);
  customers_.resize(static_cast<size_t>(problem_.customers()));
  std::iota(customers_.begin(), customers_.end(), 0);
  current_.clear();
  if (!current_.insert_all(customers_, 0, rng)) {
    tour.routes.clear();
    tour.cost = kNever;
    return 0;
  }
  return search(instance, options, 0.01 * current_.cost(), rng, tour);
}

void Solver::Search::append(const Instance& instance, Tour& tour) {
  Rng rng = rng_of(0);
  current_.set(tour.routes);
  customers_.assign(1, problem_.customers() - 1);
  if (current_.insert_all(customers_, 0, rng)) {
    write(instance, current_, tour);
  } else {
    tour.routes.clear();
    tour.cost = kNever;
  }
}

int64_t Solver::Search::refine(const Instance& instance, int iterations, Tour& tour) {
  const SolveOptions options{.iterations = iterations, .seconds = 0, .seed = 0};
  Rng rng = rng_of(options.seed);
  current_.set(tour.routes);
  return search(instance, options, kLastTemperature, rng, tour);
}

int64_t Solver::Search::improve(const Instance& instance, int passes, Tour& tour) {
  // Requests at other times of the day do not meet.
  constexpr float kApart = 60;
  current_.set(tour.routes);
  const int requests = problem_.requests();
  int64_t done = 0;
  bool better = true;
  for (; better && done < passes; ++done) {
    better = false;
    for (int a = 0; a < requests; ++a) better = current_.relocate(a) || better;
    for (int a = 0; a < requests; ++a) {
      for (int b = a + 1; b < requests; ++b) {
        const float apart = problem_.window(Instance::pickup_of(a)).early -
                            problem_.window(Instance::pickup_of(b)).early;
        if (std::abs(apart) > kApart || current_.together(a, b)) continue;
        better = current_.exchange(a, b) || better;
      }
    }
  }
  write(instance, current_, tour);
  return done;
}

Solver::Solver() : search_(std::make_unique<Search>()) {}
Solver::Solver(Solver&& other) noexcept = default;
Solver::~Solver() = default;

void Solver::reserve(int requests) { search_->reserve(requests); }

int64_t Solver::solve(const Instance& instance, const SolveOptions& options, Tour& tour) {
  search_->set(instance);
  return search_->solve(instance, options, tour);
}

int64_t Solver::solve(const Instance& instance, const Versions& versions,
                      const SolveOptions& options, Tour& tour) {
  search_->set(instance, versions);
  return search_->solve(instance, options, tour);
}

void Solver::append(const Instance& instance, Tour& tour) {
  search_->set(instance);
  search_->append(instance, tour);
}

int64_t Solver::improve(const Instance& instance, int passes, Tour& tour) {
  search_->set(instance);
  return search_->improve(instance, passes, tour);
}

int64_t Solver::refine(const Instance& instance, int iterations, Tour& tour) {
  search_->set(instance);
  return search_->refine(instance, iterations, tour);
}

namespace {

Solution solution_of(Tour tour, int64_t iterations) {
  return {.routes = std::move(tour.routes), .cost = tour.cost, .iterations = iterations};
}

}  // namespace

Solution solve(const Instance& instance, const SolveOptions& options) {
  Tour tour;
  const int64_t iterations = Solver().solve(instance, options, tour);
  return solution_of(std::move(tour), iterations);
}

Solution solve(const Instance& instance, const Versions& versions, const SolveOptions& options) {
  Tour tour;
  const int64_t iterations = Solver().solve(instance, versions, options, tour);
  return solution_of(std::move(tour), iterations);
}

Solution improve(const Instance& instance, const Routes& routes, int passes) {
  Tour tour{.routes = routes};
  const int64_t iterations = Solver().improve(instance, passes, tour);
  return solution_of(std::move(tour), iterations);
}

Solution refine(const Instance& instance, const Routes& routes, int iterations) {
  Tour tour{.routes = routes};
  const int64_t done = Solver().refine(instance, iterations, tour);
  return solution_of(std::move(tour), done);
}

}  // namespace flotilla::dvrp
