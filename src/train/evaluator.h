// Plays whole episodes with a policy, apart from training: own environments, own seeds, frozen
// normalisers. Every env plays the same number of episodes, so that short ones are not preferred.
// Where an env has no time limit, an episode ends after kLongestEvaluated steps, with a warning: a
// good policy might play for ever.
#pragma once

#include <memory>
#include <vector>

#include "flotilla/nn/policy.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

constexpr int kLongestEvaluated = 100'000;

struct Evaluation {
  int episodes = 0;
  // Of those that ended valid; of a single one `std` and `ci95` are NaN.
  double mean = 0, std = 0, ci95 = 0, mean_length = 0;
  std::vector<double> metrics;  // means of the env's own, in the order of its spec
  std::vector<double> metrics_ci95;
  double wall_s = 0;
};

struct EvalOptions {
  int episodes = 100;
  bool deterministic = true;
  int every = 0;       // updates between evaluations during training; 0: only at its end
  double stop_at = 0;  // mean return at which training ends; infinity: none
  int patience = 0;    // evaluations without a better one after which it ends; 0: no end
  uint64_t seed = 0;
  // How long episodes may be, whose failure handling is used, and whose worker processes where it
  // has some.
  VecOptions vec;

  static Schema schema();
  static EvalOptions from(const Config& config, const std::string& prefix, uint64_t run_seed);
};

// The seed of evaluations of a run, apart from all of its training.
uint64_t eval_seed(uint64_t run_seed);

class Evaluator {
 public:
  Evaluator(const EnvType& type, const Config& env_config, const EvalOptions& options);

  // For what the envs are to know from their training; null where they know nothing.
  EnvMemory* memory() const { return vec_ == nullptr ? nullptr : vec_->memory(); }
  // Always the same episodes: starts anew from the seed. `may_stop`: an interrupt ends it by
  // Error(kInterrupted).
  Evaluation play(const Policy& policy, bool may_stop);

 private:
  void step(const Policy& policy, const Draw& draw);
  void warn_of_cut(const std::vector<Episode>& episodes) const;

  const EvalOptions options_;
  const int envs_;
  bool endless_ = false;  // the env has no time limit
  std::unique_ptr<Rollout> rollout_;
  std::unique_ptr<VecEnv> vec_;
};

}  // namespace flotilla
