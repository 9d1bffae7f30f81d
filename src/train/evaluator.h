// Plays whole episodes with a policy, apart from training: own environments, own seeds, frozen
// normalisers. Every env plays the same number of episodes, so that short ones are not preferred.
#pragma once

#include <vector>

#include "flotilla/nn/policy.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

struct Evaluation {
  int episodes = 0;
  double mean = 0, std = 0, ci95 = 0, mean_length = 0;
  double wall_s = 0;
};

struct EvalOptions {
  int episodes = 100;
  bool deterministic = true;
  uint64_t seed = 0;
  // Whose failure handling is used, and whose worker processes where it has some.
  VecOptions vec;

  static Schema schema();
  static EvalOptions from(const Config& config, const std::string& prefix, uint64_t run_seed);
};

Evaluation evaluate(const EnvType& type, const Config& env_config, int time_limit,
                    const Policy& policy, const EvalOptions& options);

}  // namespace flotilla
