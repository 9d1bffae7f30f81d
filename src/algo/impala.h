// IMPALA: Espeholt et al. (2018), an actor-critic whose targets allow for a policy that has changed
// since it acted (algo/vtrace.h). docs/impala.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/algo/algorithms.h"
#include "flotilla/algo/schedule.h"
#include "flotilla/algo/vtrace.h"

namespace flotilla {

struct ImpalaOptions {
  VtraceOptions vtrace;
  double policy_rho = 1;  // largest ratio that an advantage is weighted by
  Schedule lr, entropy;
  double value_coef = 0.5, max_grad_norm = 40;
  int epochs = 1, minibatches = 1;
  bool rmsprop = true;
  double decay = 0.99, epsilon = 1e-5;  // of the optimiser

  static Schema schema();
  static ImpalaOptions from(const Config& section);
};

class ImpalaObjective final : public Objective {
 public:
  enum Sum { kPolicyLoss, kValueLoss, kEntropy, kKl, kRatioError, kRho };

  Trajectory trajectory;
  VtraceOptions correction;
  float policy_rho = 1;  // advantages are weighted by the ratio, at most by this
  const float* acting_logprob = nullptr;
  const float* last_value = nullptr;  // by env, of the present policy
  float value_coef = 0.5F, entropy_coef = 0;
  float row_weight = 1;  // 1 / valid rows of the minibatch

  int sequence() const override { return trajectory.steps; }
  void differentiate(const Rows& rows, double* sums) const override;
};

class Impala final : public Learner {
 public:
  Impala(Policy& policy, ThreadPool& pool, const ImpalaOptions& options, uint64_t seed);

  Update learn(const Batch& batch, const LearnProgress& progress) override;
  double gamma() const override { return options_.vtrace.gamma; }
  double passes() const override { return options_.epochs; }

 private:
  // Rows of the envs of one part of a pass, one env after the other.
  void choose_rows(const Trajectory& trajectory, std::span<const int32_t> envs);

  Policy& policy_;
  ThreadPool& pool_;
  const ImpalaOptions options_;
  const uint64_t seed_;
  std::vector<float> last_value_;
  std::vector<int32_t> envs_, rows_;
};

Algorithm impala_algorithm();

}  // namespace flotilla
