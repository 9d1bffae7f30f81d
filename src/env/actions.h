// Actions of a batch: checking them against the space, drawing random ones, and keeping the last
// ones for crash bundles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/core/thread_pool.h"
#include "flotilla/env/spec.h"
#include "flotilla/env/views.h"

namespace flotilla {

// Throws Error(kUsage) "env 3 of 'cartpole': action 7 is outside Discrete(2)".
// Row i belongs to env first_env + i.
void check_actions(const EnvSpec& spec, Span envs, ActionView actions, int first_env = 0);

std::string describe_action(const EnvSpec& spec, ActionView actions, int env);

// Fills the rows of `envs` with uniformly random actions among those open: a function of (seed,
// env, step), where row i belongs to env first_env + i. `mask` is the mask of the observation acted
// on, or null. A choice among n is drawn from one 32-bit word, so its bias is below n / 2^32.
void random_actions(const EnvSpec& spec, Span envs, uint64_t seed, uint64_t step,
                    const uint8_t* mask, std::byte* out, int first_env = 0);

// The latest actions of every env, one row per step. Choices take a byte where they fit in one: all
// threads write here at every step.
class ActionLog {
 public:
  ActionLog() = default;
  ActionLog(const EnvSpec& spec, int num_envs);

  void record(uint64_t step, Span envs, ActionView actions);

  // The actions of env for steps [end - count, end), oldest first; fewer when they are no longer
  // kept.
  std::vector<std::vector<double>> last(int env, uint64_t end, uint64_t count) const;

 private:
  enum class Kept : uint8_t { kFloats, kChoices, kSmallChoices };

  double value_at(const std::byte* place) const;

  Kept kept_ = Kept::kChoices;
  size_t value_bytes_ = 0, dims_ = 0, row_bytes_ = 0;
  uint64_t rows_ = 0;
  std::vector<std::byte> data_;
};

}  // namespace flotilla
