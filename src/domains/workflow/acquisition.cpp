#include "flotilla/domains/workflow/acquisition.h"

#include <algorithm>
#include <cmath>

#include "flotilla/core/rng.h"

namespace flotilla::workflow {
namespace {

// Where scores are equal, in an order of their own.
void sort_by_score(std::vector<Candidate>& candidates, const std::vector<uint32_t>& ticket) {
  std::ranges::sort(candidates, [&ticket](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return ticket[static_cast<size_t>(a.order)] < ticket[static_cast<size_t>(b.order)];
  });
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// What an order that was tried says of itself: two deviations, or 98 %.
constexpr double kSure = 2;

// The probability that an order is compliant, from the posterior over +kSure and -kSure.
double feasibility(const Posterior& posterior) {
  return normal_cdf(posterior.mean / std::sqrt(1 + posterior.deviation * posterior.deviation));
}

std::vector<GaussianProcess::Distance> distances(const Orders& orders,
                                                 AcquisitionOptions::Kernel kernel) {
  using Kernel = AcquisitionOptions::Kernel;
  std::vector<GaussianProcess::Distance> distances;
  if (kernel != Kernel::kPosition) {
    distances.emplace_back([&orders](int a, int b) { return orders.kendall(a, b); });
  }
  if (kernel != Kernel::kKendall) {
    distances.emplace_back([&orders](int a, int b) { return orders.hamming(a, b); });
  }
  return distances;
}

}  // namespace

double uncertainty_weight(double beta, size_t trials) {
  return beta * std::sqrt(1 + std::log(std::max(static_cast<double>(trials), 1.0)));
}

std::vector<Candidate> score_by_ucb(const Orders& orders, const std::vector<Trial>& trials,
                                    const AcquisitionOptions& options) {
  GaussianProcess value(distances(orders, options.kernel));
  GaussianProcess compliance(distances(orders, options.kernel));
  std::vector<int> points;
  std::vector<double> values, signs;
  for (const Trial& trial : trials) {
    points.push_back(trial.order);
    values.push_back(trial.value);
    signs.push_back(trial.compliant ? kSure : -kSure);
  }
  const bool some_failed = std::ranges::count(signs, -kSure) > 0;
  if (!trials.empty()) {
    const auto fit =
        options.fit_hyperparameters ? &GaussianProcess::fit_best : &GaussianProcess::fit;
    (value.*fit)(points, values, options.hyperparameters);
    if (some_failed) (compliance.*fit)(points, signs, options.hyperparameters);
  }
  const double weight = uncertainty_weight(options.beta, trials.size());
  const double worst = values.empty() ? 0 : std::ranges::min(values);
  std::vector<Candidate> candidates;
  std::vector<uint32_t> ticket;
  Rng rng(options.seed, stream_of(Purpose::kSearch, trials.size()));
  for (int order = 0; order < orders.size(); ++order) {
    const Posterior posterior = value.at(order);
    Candidate candidate{.order = order, .mean = posterior.mean, .deviation = posterior.deviation};
    const double bound = posterior.mean + weight * posterior.deviation;
    double hope = 1;
    if (some_failed) {
      const Posterior reached = compliance.at(order);
      candidate.feasible = feasibility(reached);
      hope = normal_cdf(reached.mean + weight * reached.deviation);
    }
    candidate.score = worst + (bound - worst) * hope;
    candidates.push_back(candidate);
    ticket.push_back(rng.next_u32());
  }
  sort_by_score(candidates, ticket);
  return candidates;
}

std::vector<Candidate> score_as_before(const Orders& orders, const std::vector<Trial>& trials,
                                       double beta) {
  std::vector<Candidate> candidates;
  std::vector<uint32_t> ticket;
  for (int order = 0; order < orders.size(); ++order) {
    ticket.push_back(static_cast<uint32_t>(order));
    Candidate candidate{.order = order, .mean = 0, .deviation = 10};
    const auto seen = std::ranges::count(trials, order, &Trial::order);
    if (seen > 0) {
      candidate.mean = std::ranges::find(trials, order, &Trial::order)->value;
      candidate.deviation = 1 / (1 + static_cast<double>(seen));
    } else if (!trials.empty()) {
      double weights = 0, sum = 0, nearest = 1;
      for (const Trial& trial : trials) {
        const double distance = std::max(orders.kendall(order, trial.order), 1e-6);
        const double weight = std::exp(-2 * distance);
        weights += weight;
        sum += weight * trial.value;
        nearest = std::min(nearest, distance);
      }
      candidate.mean = sum / weights;
      candidate.deviation = 10 * nearest + 1;
    }
    candidate.score =
        candidate.mean + beta / (1 + 0.5 * static_cast<double>(seen)) * candidate.deviation;
    candidates.push_back(candidate);
  }
  sort_by_score(candidates, ticket);
  return candidates;
}

}  // namespace flotilla::workflow
