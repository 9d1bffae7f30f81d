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

class RandomRun : private Play {
 public:
  // Builds the envs and resets them.
  RandomRun(const EnvType& type, const Config& config, const VecOptions& options, uint64_t seed);

  VecEnv& vec() { return *vec_; }
  const StepView& view() const { return view_; }
  ActionView actions() const { return {actions_}; }
  uint64_t steps() const { return steps_; }
  // Called after every step of some envs, by several threads at once; null: nobody looks.
  using Look = std::function<void(int step, Span envs)>;

  // One step of every env; afterwards view() holds it. `before` runs when the actions are drawn
  // and no env steps yet.
  void step(const std::function<void()>& before = nullptr);
  // Many steps with the groups overlapping: one waits for its actions while the other steps.
  void run(uint64_t steps);
  // The same steps, which every env makes alone, where the envs can: VecEnv::play().
  void play(int steps, const Look& look = nullptr);

  void save(Writer& writer) const;
  void load(Reader& reader);

 private:
  struct Draw {
    RandomRun* run = nullptr;
    uint64_t step = 0;
  };

  ActionView actions(int) const override { return {actions_}; }
  StepView view(int) const override { return view_; }
  void act(int, int step, Span envs) override { draw(envs, steps_ + static_cast<uint64_t>(step)); }
  bool stepped(int part, int step, Span envs) override;

  void draw(Span envs, uint64_t step);
  void begin(int group);

  std::unique_ptr<VecEnv> vec_;
  StepView view_;
  std::byte* actions_ = nullptr;
  std::vector<uint8_t> open_;  // where the env has a mask and advice
  uint64_t seed_;
  uint64_t steps_ = 0;
  Draw drawn_[kMaxGroups];  // for the step that each group is in
  int played_ = 0;          // steps of a play()
  const Look* look_ = nullptr;
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
