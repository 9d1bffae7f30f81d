// Regression by a Gaussian process: Rasmussen and Williams, "Gaussian Processes for Machine
// Learning" (2006), algorithm 2.1, on points of which only the distances are known.
//
// The kernel falls exponentially with the distance. With Kendall's distance that is the kernel of
// Mallows, which is positive definite on orders (Jiao and Vert, "The Kendall and Mallows kernels
// for permutations", 2015), and so it is with the part of the places that differ; a Gaussian of
// Kendall's distance is not, and fails on a few dozen orders.
#pragma once

#include <functional>
#include <vector>

namespace flotilla::workflow {

struct Hyperparameters {
  int distance = 0;     // which of the distances
  double length = 0.5;  // of k(d) = signal^2 exp(-d / length)
  double signal = 1;    // deviation of the function, in units of the targets' deviation
  double noise = 0.1;   // deviation of a target around it, in the same units

  bool operator==(const Hyperparameters&) const = default;
};

struct Posterior {
  double mean = 0, deviation = 0;
};

class GaussianProcess {
 public:
  using Distance = std::function<double(int, int)>;

  explicit GaussianProcess(std::vector<Distance> distances) : distances_(std::move(distances)) {}

  // A point may stand in it several times: its targets count as one, their mean, with less noise.
  // So the centre and the scale of the targets do not drift towards what is repeated.
  void fit(const std::vector<int>& points, const std::vector<double>& targets,
           const Hyperparameters& hyperparameters);
  // The same with the distance and the hyper-parameters of the highest marginal likelihood on a
  // grid; with fewer than three points, with those given.
  void fit_best(const std::vector<int>& points, const std::vector<double>& targets,
                const Hyperparameters& fallback);

  // Before a fit, and far from all points: mean 0 (of the targets, after one) and the prior's
  // deviation. Without noise: of the function itself.
  Posterior at(int point) const;
  double log_likelihood() const { return log_likelihood_; }
  const Hyperparameters& hyperparameters() const { return hyper_; }

 private:
  double kernel(int a, int b) const;
  void factorise();

  std::vector<Distance> distances_;
  Hyperparameters hyper_;
  std::vector<int> points_;
  std::vector<double> counts_;  // targets of each
  std::vector<double> scaled_;  // targets
  double centre_ = 0, scale_ = 1;
  std::vector<double> factor_;  // lower triangle of the Cholesky factor, row by row
  std::vector<double> weights_;
  double log_likelihood_ = 0;
};

}  // namespace flotilla::workflow
