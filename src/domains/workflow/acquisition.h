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
  double beta = 2;
  Hyperparameters hyperparameters;
  bool fit_hyperparameters = true;
  uint64_t seed = 0;  // of ties
};

// Upper confidence bound (Srinivas et al., "Gaussian process optimization in the bandit setting",
// 2010) of a Gaussian process over the orders with Kendall's distance. The gain over the worst
// value seen is multiplied by the probability of compliance, which a second process estimates from
// who reached it. Repeats are allowed; equal scores are decided by the seed.
// Scores of all orders; the chosen one is the first.
std::vector<Candidate> score_by_ucb(const Orders& orders, const std::vector<Trial>& trials,
                                    const AcquisitionOptions& options);

// The scoring of the earlier system, which is no Gaussian process: weights that fall with the
// distance, the first value seen of an order for ever, the lowest index where scores are equal.
std::vector<Candidate> score_as_before(const Orders& orders, const std::vector<Trial>& trials,
                                       double beta);

}  // namespace flotilla::workflow
