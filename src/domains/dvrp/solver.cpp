#include "flotilla/domains/dvrp/solver.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/domains/dvrp/solver_plan.h"

namespace flotilla::dvrp {
namespace {

// Which customers to take out and put in again.
class Ruin {
 public:
  Ruin(const Problem& problem, Rng& rng) : problem_(problem), rng_(rng) {}

  // Until the next call.
  std::vector<int>& choose(const Plan& plan) {
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
  std::vector<int>& by(const Key& key, int count) {
    keys_.clear();
    for (int c = 0; c < problem_.customers(); ++c) keys_.emplace_back(key(c), c);
    std::ranges::partial_sort(keys_, keys_.begin() + count);
    chosen_.clear();
    for (int i = 0; i < count; ++i) chosen_.push_back(keys_[static_cast<size_t>(i)].second);
    return chosen_;
  }

  const Problem& problem_;
  Rng& rng_;
  std::vector<std::pair<double, int>> keys_;
  std::vector<int> chosen_;
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
  Plan current = first, best = first, next = first;
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
    next = current;
    std::vector<int>& out = ruin.choose(current);
    const double noise = rng.chance(0.5) ? 4 : 0;
    if (!next.take_out(out) || !next.insert_all(out, noise, rng)) continue;
    if (is_taken(next.cost() - current.cost(), warmth, rng)) current = next;
    if (current.cost() < best.cost() - 1e-9) best = current;
  }
  Solution solution{.routes = best.routes(), .cost = 0, .iterations = i};
  solution.cost = cost_of(instance, solution.routes);
  return solution;
}

Solution solve(const Instance& instance, Problem problem, const SolveOptions& options) {
  Memo memo(problem.requests());
  Rng rng = rng_of(options.seed);
  std::vector<int> all(static_cast<size_t>(problem.customers()));
  std::iota(all.begin(), all.end(), 0);
  Plan first(problem, memo);
  if (!first.insert_all(all, 0, rng)) return {.routes = {}, .cost = kNever, .iterations = 0};
  const double temperature = 0.01 * first.cost();
  return search(instance, problem, first, options, temperature, rng);
}

}  // namespace

Solution solve(const Instance& instance, const SolveOptions& options) {
  return solve(instance, Problem(instance), options);
}

Solution solve(const Instance& instance, const Versions& versions, const SolveOptions& options) {
  return solve(instance, Problem(instance, versions), options);
}

Solution refine(const Instance& instance, const std::vector<Route>& routes, int iterations) {
  Problem problem(instance);
  Memo memo(problem.requests());
  const SolveOptions options{.iterations = iterations, .seconds = 0, .seed = 0};
  Rng rng = rng_of(options.seed);
  return search(instance, problem, Plan(problem, memo, routes), options, kLastTemperature, rng);
}

Solution improve(const Instance& instance, const std::vector<Route>& routes, int passes) {
  // Requests at other times of the day do not meet.
  constexpr float kApart = 60;
  Problem problem(instance);
  Memo memo(problem.requests());
  Plan plan(problem, memo, routes);
  const int requests = problem.requests();
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
