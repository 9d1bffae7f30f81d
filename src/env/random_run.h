// A VecEnv with its buffers, driven by random actions: for benchmarks, conformance checks, tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/core/sha256.h"
#include "flotilla/env/vec_env.h"

namespace flotilla {

class RandomRun {
 public:
  // Builds the envs and resets them.
  RandomRun(const EnvType& type, const Config& config, const VecOptions& options, uint64_t seed);

  VecEnv& vec() { return *vec_; }
  const StepView& view() const { return view_; }
  ActionView actions() const { return {actions_}; }
  uint64_t steps() const { return steps_; }

  // One step of every env; afterwards view() holds it. `before` runs when the actions are drawn
  // and no env steps yet.
  void step(const std::function<void()>& before = nullptr);
  // Many steps with the groups overlapping: one waits for its actions while the other steps.
  void run(uint64_t steps);

  void save(Writer& writer) const;
  void load(Reader& reader);

 private:
  struct Draw {
    RandomRun* run = nullptr;
    uint64_t step = 0;
  };

  void draw(Span envs, uint64_t step);
  void begin(int group);

  std::unique_ptr<VecEnv> vec_;
  StepView view_;
  std::byte* actions_ = nullptr;
  std::vector<uint8_t> open_;  // where the env has a mask and advice
  uint64_t seed_;
  uint64_t steps_ = 0;
  Draw drawn_[kMaxGroups];  // for the step that each group is in
};

// SHA-256 over observations, rewards, terminated and truncated flags, step after step.
class TrajectoryHash {
 public:
  TrajectoryHash(const EnvSpec& spec, int num_envs);
  void add(const StepView& view);
  std::string hex() { return hash_.hex(); }

 private:
  size_t num_envs_, obs_bytes_;
  Sha256 hash_;
};

}  // namespace flotilla
