#include "flotilla/domains/workflow/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flotilla/core/error.h"

namespace flotilla::workflow {
namespace {

// Index of row i, column j <= i of a lower triangle.
size_t at_row(size_t i, size_t j) { return i * (i + 1) / 2 + j; }

// The Cholesky factor of a symmetric matrix, in place. False when it is not positive definite.
bool cholesky(std::vector<double>& a, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[at_row(i, j)];
      for (size_t k = 0; k < j; ++k) sum -= a[at_row(i, k)] * a[at_row(j, k)];
      if (i != j) {
        a[at_row(i, j)] = sum / a[at_row(j, j)];
      } else if (sum > 0) {
        a[at_row(i, i)] = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  return true;
}

std::vector<double> solve_lower(const std::vector<double>& l, std::vector<double> b) {
  for (size_t i = 0; i < b.size(); ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= l[at_row(i, k)] * b[k];
    b[i] /= l[at_row(i, i)];
  }
  return b;
}

std::vector<double> solve_upper(const std::vector<double>& l, std::vector<double> b) {
  for (size_t i = b.size(); i-- > 0;) {
    for (size_t k = i + 1; k < b.size(); ++k) b[i] -= l[at_row(k, i)] * b[k];
    b[i] /= l[at_row(i, i)];
  }
  return b;
}

}  // namespace

double GaussianProcess::kernel(int a, int b) const {
  const double distance = distances_[static_cast<size_t>(hyper_.distance)](a, b);
  return hyper_.signal * hyper_.signal * std::exp(-distance / hyper_.length);
}

void GaussianProcess::fit(const std::vector<int>& points, const std::vector<double>& targets,
                          const Hyperparameters& hyperparameters) {
  hyper_ = hyperparameters;
  points_.clear();
  counts_.clear();
  scaled_.clear();
  for (size_t i = 0; i < points.size(); ++i) {
    const auto at = std::ranges::find(points_, points[i]) - points_.begin();
    if (at == static_cast<std::ptrdiff_t>(points_.size())) {
      points_.push_back(points[i]);
      counts_.push_back(0);
      scaled_.push_back(0);
    }
    const auto place = static_cast<size_t>(at);
    counts_[place] += 1;
    scaled_[place] += (targets[i] - scaled_[place]) / counts_[place];
  }
  const auto n = static_cast<double>(points_.size());
  centre_ = 0;
  for (const double target : scaled_) centre_ += target / n;
  double square = 0;
  for (const double target : scaled_) square += (target - centre_) * (target - centre_);
  scale_ = n > 1 && square > 0 ? std::sqrt(square / (n - 1)) : 1;
  for (double& target : scaled_) target = (target - centre_) / scale_;
  factorise();
}

void GaussianProcess::factorise() {
  const size_t n = points_.size();
  std::vector<double> covariance(n * (n + 1) / 2);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) covariance[at_row(i, j)] = kernel(points_[i], points_[j]);
  }
  // Without noise, points that are as good as one make it singular: add as little as it takes.
  double jitter = 1e-10;
  for (;; jitter *= 10) {
    if (jitter > 1) throw Error(ErrorCode::kNumeric, "the covariance is not positive definite");
    factor_ = covariance;
    for (size_t i = 0; i < n; ++i) {
      factor_[at_row(i, i)] += hyper_.noise * hyper_.noise / counts_[i] + jitter;
    }
    if (cholesky(factor_, n)) break;
  }
  const std::vector<double> half = solve_lower(factor_, scaled_);
  weights_ = solve_upper(factor_, half);
  log_likelihood_ = -0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
  for (size_t i = 0; i < n; ++i) {
    log_likelihood_ -= 0.5 * half[i] * half[i] + std::log(factor_[at_row(i, i)]);
  }
}

void GaussianProcess::fit_best(const std::vector<int>& points, const std::vector<double>& targets,
                               const Hyperparameters& fallback) {
  fit(points, targets, fallback);
  if (points_.size() < 3) return;
  Hyperparameters best = fallback;
  double best_likelihood = log_likelihood_;
  const auto consider = [&](const Hyperparameters& each) {
    hyper_ = each;
    factorise();
    if (log_likelihood_ <= best_likelihood) return;
    best_likelihood = log_likelihood_;
    best = hyper_;
  };
  for (int distance = 0; distance < static_cast<int>(distances_.size()); ++distance) {
    for (const double length : {0.1, 0.2, 0.35, 0.5, 1.0, 2.0}) {
      for (const double signal : {0.5, 0.8, 1.2, 2.0}) {
        for (const double noise : {0.01, 0.05, 0.1, 0.3, 0.6}) {
          consider({.distance = distance, .length = length, .signal = signal, .noise = noise});
        }
      }
    }
  }
  hyper_ = best;
  factorise();
}

Posterior GaussianProcess::at(int point) const {
  if (points_.empty()) return {.mean = 0, .deviation = hyper_.signal};
  std::vector<double> cross;
  for (const int each : points_) cross.push_back(kernel(point, each));
  double mean = 0;
  for (size_t i = 0; i < cross.size(); ++i) mean += cross[i] * weights_[i];
  const std::vector<double> half = solve_lower(factor_, std::move(cross));
  double variance = hyper_.signal * hyper_.signal;
  for (const double each : half) variance -= each * each;
  return {.mean = centre_ + scale_ * mean,
          .deviation = scale_ * std::sqrt(std::max(variance, 0.0))};
}

}  // namespace flotilla::workflow
