// V-trace: Espeholt et al., "IMPALA: scalable distributed deep-RL with importance weighted
// actor-learner architectures" (2018). Targets for a policy that has changed since it acted.
#pragma once

#include <cstdint>

#include "flotilla/algo/trajectory.h"

namespace flotilla {

struct VtraceOptions {
  double gamma = 0.99, lambda = 1;
  // Ratios of probabilities are clipped to these: in the error of a step, and in what comes back
  // from later ones.
  double rho = 1, c = 1;
};

// Steps of one env, in the order of time, as the present policy sees them.
struct VtraceSequence {
  int steps = 0;
  const int32_t* row = nullptr;  // of the trajectory
  const float* value = nullptr;
  const float* log_ratio = nullptr;  // log of present over acting probability
  float last_value = 0;              // behind the last step
};

// By step. Ends of episodes and invalid rows count as in estimate_advantages(); `value` and
// `last_value` of the trajectory are not read.
//
// target:    V + rho (r + gamma V' - V) + gamma c (target' - V')
// advantage: r + gamma target' - V, with the corrected target of the next step; how much it counts,
//            where the policy has changed, is for objectives to say
//
// Where the policy has not changed and lambda is 1, both are those of an n-step actor-critic.
void vtrace(const Trajectory& trajectory, const VtraceSequence& sequence,
            const VtraceOptions& options, float* advantage, float* target);

}  // namespace flotilla
