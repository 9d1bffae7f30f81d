#include "flotilla/domains/dvrp/standard/search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/standard/plan.h"

namespace flotilla::dvrp::standard {
namespace {

// How far the search is, by time or by iterations.
class Progress {
 public:
  explicit Progress(const SearchOptions& options) : options_(options), begin_(now_ns()) {}

  double fraction() const {
    if (options_.seconds > 0) {
      return seconds_since(begin_) / options_.seconds;
    }
    return options_.iterations == 0
               ? 1
               : static_cast<double>(done_) / static_cast<double>(options_.iterations);
  }
  void count() { ++done_; }
  int64_t iterations() const { return done_; }

 private:
  const SearchOptions& options_;
  const uint64_t begin_;
  int64_t done_ = 0;
};

class Search {
 public:
  Search(const Problem& problem, const SearchOptions& options)
      : problem_(problem),
        memo_(problem),
        rng_(options.seed, stream_of(Purpose::kSearch, uint64_t{4} << 40U)),
        progress_(options) {
    for (int request = 0; request < problem.requests(); ++request) {
      const int pickup = Problem::pickup_of(request);
      const Route alone = {pickup, pickup + 1};
      penalty_ = std::max(penalty_, 3 * length_of(problem, alone));
    }
  }

  Found run() {
    Plan plan(problem_, memo_, problem_.vehicles);
    plan.insert_bank({}, rng_);
    if (problem_.vehicles_first) plan = with_fewer_vehicles(std::move(plan));
    plan = anneal(plan, 1, false);
    Found found{.routes = plan.routes(), .bank = plan.bank(), .iterations = progress_.iterations()};
    std::ranges::sort(found.bank);
    for (const Route& route : found.routes) found.distance += length_of(problem_, route);
    return found;
  }

 private:
  double cost(const Plan& plan) const {
    return plan.distance() + penalty_ * static_cast<double>(plan.bank().size());
  }

  // Half of the time, as long as the next smaller fleet serves all.
  Plan with_fewer_vehicles(Plan plan) {
    constexpr double kShare = 0.5, kTry = 0.15;
    while (plan.bank().empty() && plan.used() > 1 && progress_.fraction() < kShare) {
      Plan fewer = plan;
      fewer.dissolve_smallest();
      fewer.insert_bank({}, rng_);
      fewer = anneal(fewer, std::min(kShare, progress_.fraction() + kTry), true);
      if (!fewer.bank().empty()) break;
      plan = std::move(fewer);
    }
    return plan;
  }

  // From here to this fraction of the whole search, or until all are served.
  Plan anneal(const Plan& start, double end, bool until_served) {
    constexpr double kFirst = 0.01, kLast = 1e-5;  // temperatures, of the distance
    Plan current = start, best = start, next = start;
    const double begin = progress_.fraction(), scale = std::max(start.distance(), 1.0);
    for (double now = begin; now < end; now = progress_.fraction()) {
      if (until_served && best.bank().empty()) break;
      stop_if_interrupted();
      const double part = (now - begin) / (end - begin);
      const double warmth = scale * kFirst * std::pow(kLast / kFirst, part);
      next = current;
      next.take_out(choose(current));
      Insertion how{.regret = 1 + static_cast<int>(rng_.below(4)),
                    .noise = rng_.chance(0.5) ? 0.1 : 0};
      how.blinks = !current.bank().empty() && rng_.chance(0.5);
      next.insert_bank(how, rng_);
      progress_.count();
      const double change = cost(next) - cost(current);
      if (change <= 0 || rng_.uniform() < std::exp(-change / warmth)) std::swap(current, next);
      if (cost(current) < cost(best) - 1e-9) best = current;
    }
    return best;
  }

  // Which requests to take out.
  const std::vector<int>& choose(const Plan& plan) {
    const int requests = problem_.requests();
    const int most = std::clamp(static_cast<int>(0.35 * requests), 2, 20);
    const int count =
        std::min(requests, 2 + static_cast<int>(rng_.below(static_cast<uint32_t>(most))));
    const auto blur = [this] { return 0.4 + rng_.uniform(); };
    switch (rng_.below(4)) {
      case 0:
        return by(plan, count, [&](int) { return rng_.uniform(); });
      case 1:
        return by(plan, count, [&](int request) { return -plan.saving(request) * blur(); });
      default: {  // those alike a random one
        const int seed = static_cast<int>(rng_.below(static_cast<uint32_t>(requests)));
        if (!plan.is_served(seed)) return by(plan, count, [&](int) { return rng_.uniform(); });
        return by(plan, count, [&](int request) { return apart(plan, seed, request) * blur(); });
      }
    }
  }

  double apart(const Plan& plan, int a, int b) const {
    const int p = Problem::pickup_of(a), q = Problem::pickup_of(b);
    return problem_.distance(p, q) + problem_.distance(p + 1, q + 1) +
           0.3 * std::abs(plan.pickup_time(a) - plan.pickup_time(b)) +
           (plan.together(a, b) ? 0 : 4);
  }

  template <class Key>
  const std::vector<int>& by(const Plan& plan, int count, const Key& key) {
    keys_.clear();
    for (int request = 0; request < problem_.requests(); ++request) {
      if (plan.is_served(request)) keys_.emplace_back(key(request), request);
    }
    const auto chosen = std::min(static_cast<size_t>(count), keys_.size());
    std::ranges::partial_sort(keys_, keys_.begin() + static_cast<std::ptrdiff_t>(chosen));
    chosen_.clear();
    for (size_t i = 0; i < chosen; ++i) chosen_.push_back(keys_[i].second);
    return chosen_;
  }

  const Problem& problem_;
  Memo memo_;
  Rng rng_;
  Progress progress_;
  double penalty_ = 1;  // of a request in the bank
  std::vector<std::pair<double, int>> keys_;
  std::vector<int> chosen_;
};

}  // namespace

Found search(const Problem& problem, const SearchOptions& options) {
  return Search(problem, options).run();
}

}  // namespace flotilla::dvrp::standard
