// Regression by a Gaussian process: Rasmussen and Williams, "Gaussian Processes for Machine
// Learning" (2006), algorithm 2.1, on points of which only the distances are known.
#pragma once

#include <functional>
#include <vector>

namespace flotilla::workflow {

struct Hyperparameters {
  double length = 0.5;  // of k(d) = signal^2 exp(-d^2 / (2 length^2))
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

  explicit GaussianProcess(Distance distance) : distance_(std::move(distance)) {}

  // Targets are centred and scaled; a point may stand in it several times.
  void fit(std::vector<int> points, const std::vector<double>& targets,
           const Hyperparameters& hyperparameters);
  // The same with the hyper-parameters of the highest marginal likelihood on a grid; with fewer
  // than three targets, with those given.
  void fit_best(std::vector<int> points, const std::vector<double>& targets,
                const Hyperparameters& fallback);

  // Before a fit, and far from all points: mean 0 (of the targets, after one) and the prior's
  // deviation. Without noise: of the function itself.
  Posterior at(int point) const;
  double log_likelihood() const { return log_likelihood_; }
  const Hyperparameters& hyperparameters() const { return hyper_; }

 private:
  double kernel(int a, int b) const;
  void factorise();

  Distance distance_;
  Hyperparameters hyper_;
  std::vector<int> points_;
  std::vector<double> scaled_;  // targets
  double centre_ = 0, scale_ = 1;
  std::vector<double> factor_;  // lower triangle of the Cholesky factor, row by row
  std::vector<double> weights_;
  double log_likelihood_ = 0;
};

}  // namespace flotilla::workflow
