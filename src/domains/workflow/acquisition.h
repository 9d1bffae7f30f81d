// Which workflow to try next, given what was seen of others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/domains/workflow/gaussian_process.h"
#include "flotilla/domains/workflow/orders.h"

namespace flotilla::workflow {

struct Trial {
  int order = 0;
  double value = 0;
  bool compliant = true;  // reached the compliance that was asked for
};

struct Candidate {
  int order = 0;
  double score = 0, mean = 0, deviation = 0;
  double feasible = 1;  // probability that it reaches the compliance
};

struct AcquisitionOptions {
  enum class Kernel : uint8_t { kAuto, kKendall, kPosition };  // kAuto: the likelier

  double beta = 2;
  Kernel kernel = Kernel::kAuto;
  Hyperparameters hyperparameters;
  bool fit_hyperparameters = true;
  uint64_t seed = 0;  // of ties
};

// The weight of a deviation after so many trials. It grows with the root of their logarithm, as the
// bound of Srinivas et al. does: with a constant weight a search can stay for ever with an order
// that was good early.
double uncertainty_weight(double beta, size_t trials);

// Upper confidence bound (Srinivas et al., "Gaussian process optimization in the bandit setting",
// 2010) of a Gaussian process over the orders. The gain over the worst value seen is multiplied by
// the probability of compliance, which a second process estimates from who reached it, at the upper
// bound of that one: who was never tried is given the benefit of the doubt, who failed is not.
// Repeats are allowed; equal scores are decided by the seed.
// Scores of all orders; the chosen one is the first.
std::vector<Candidate> score_by_ucb(const Orders& orders, const std::vector<Trial>& trials,
                                    const AcquisitionOptions& options);

// The scoring of the earlier system, which is no Gaussian process: weights that fall with the
// distance, the first value seen of an order for ever, the lowest index where scores are equal.
std::vector<Candidate> score_as_before(const Orders& orders, const std::vector<Trial>& trials,
                                       double beta);

}  // namespace flotilla::workflow
