// Fills a rollout: the policy acts, the environments step. Where they can, envs play the whole
// rollout alone, and threads meet once at its end. Otherwise all step together, group by group, so
// that one half of the envs steps while the policy acts for the other.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/nn/policy.h"
#include "flotilla/train/acting.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

class Collector : private Play {
 public:
  // `pool`: threads that may act where the envs bring none; or null.
  Collector(VecEnv& vec, Rollout& rollout, const ActingPolicy& policy, const BatchNeeds& needs,
            uint64_t seed, ThreadPool* pool = nullptr);

  void reset(uint64_t env_seed) { vec_.reset(env_seed, rollout_.first_view()); }
  // One rollout, with the values that advantages need besides.
  void collect(float epsilon);

  uint64_t steps() const { return steps_; }  // of each env
  void set_steps(uint64_t steps) { steps_ = steps; }

  // Seconds of the calling thread since the last call: spent in the policy, and in all.
  struct Times {
    double infer_s = 0, total_s = 0;
  };
  Times take_times();

 private:
  struct Turn {
    Collector* collector = nullptr;
    int step = 0;
  };
  // Play.
  ActionView actions(int step) const override { return {rollout_.actions(step)}; }
  StepView view(int step) const override { return rollout_.view(step); }
  void act(int part, int step, Span envs) override;
  bool stepped(int part, int step, Span envs) override;

  bool plays_alone() const;
  void begin(int group, int step);
  void step_together();
  void value_ends();

  VecEnv& vec_;
  Rollout& rollout_;
  const ActingPolicy& policy_;
  const Acting acting_;
  ThreadPool* const pool_;
  const int threads_;  // that act
  uint64_t steps_ = 0;
  float epsilon_ = 0;
  Turn turns_[kMaxGroups];
  uint64_t infer_ns_ = 0, total_ns_ = 0;
  std::vector<std::vector<float>> final_values_;  // by part of the rollout
};

}  // namespace flotilla
