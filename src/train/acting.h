// A policy that acts for some envs of a rollout: what collecting in turn and actors have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/nn/policy.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

class Acting {
 public:
  Acting(const VecEnv& vec, const BatchNeeds& needs, uint64_t seed)
      : vec_(vec), needs_(needs), seed_(seed) {}

  const BatchNeeds& needs() const { return needs_; }

  // Writes the actions of these envs at `step` of the rollout, and what the learner needs of them.
  // `first_step`: of the rollout, since the run began. Throws Error(kEnvironment) where an env has
  // no legal choice.
  void act(const ActingPolicy& policy, int part, const Rollout& rollout, Span envs, int step,
           uint64_t first_step, float epsilon) const;
  // Values the last observations of truncated episodes. `values` is room for them.
  void value_cuts(const ActingPolicy& policy, int part, Rollout& rollout, int rollout_part,
                  std::vector<float>& values) const;
  // And those behind the last step of these envs.
  void value_last(const ActingPolicy& policy, int part, const Rollout& rollout, Span envs) const;

 private:
  void require_choices(const Rollout& rollout, Span envs, int step, uint64_t first_step) const;

  const VecEnv& vec_;
  const BatchNeeds needs_;
  const uint64_t seed_;
};

}  // namespace flotilla
