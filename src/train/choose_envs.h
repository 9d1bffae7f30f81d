// How many environments a run should have where nobody says: those of its recipe, fewer where
// memory does not hold them, and more as long as that makes training much faster on this machine.
//
// Numbers double from that of the recipe. With each, the run trains for some milliseconds. Where a
// rollout takes longer than that, parts of rollouts are collected and nothing is learnt.
//
// Determinism: none. Rates depend on what else the machine does. The number that was chosen stands
// in the config of the run, from which all else follows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/core/system.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

// What "auto" is for the key num_envs.
constexpr const char* kAutoEnvs = "auto";
// Takes num_envs=auto, by any name of the key, out of key=value settings; whether it was there.
bool take_auto_envs(std::vector<std::string>& settings);

struct EnvsRoom {
  // Half of what is left: evaluations and checkpoints need some as well.
  uint64_t memory = available_memory_bytes() / 2;
  double seconds = 1;  // about so long
};

// A number of envs that was tried.
struct EnvsTried {
  int num_envs = 0;
  double steps_per_s = 0;
  uint64_t grown = 0;  // bytes by which memory grew, without rollouts
  double cost_s = 0;   // the least that its measurement takes
};

struct EnvsChoice {
  int num_envs = 0;
  std::vector<EnvsTried> tried;  // from few to many
  std::string end;               // why there are no more
  double took_s = 0;

  // "num_envs: 128 of 64 to 256 (tried in 0.4 s: more are hardly faster)"
  std::string text() const;
};

// The settings of the run with so many envs, on which others may depend; by default as many as the
// recipe has.
using ConfigWith = std::function<Config(std::optional<int> num_envs)>;

class EnvsChooser {
 public:
  EnvsChooser(const Registry& registry, const Algorithms& algorithms, ConfigWith config_with,
              PolicyFactory policy_factory = {});
  virtual ~EnvsChooser() = default;

  // Throws what is wrong with the settings, and Error(kUsage) where memory is too small for the
  // smallest number that they allow.
  EnvsChoice choose(const EnvsRoom& room = {});

 protected:
  // For about so many seconds, longer where that is less than an update.
  virtual EnvsTried measure(const RunConfig& run, double seconds);

 private:
  using RunPtr = std::unique_ptr<RunConfig>;
  RunPtr run_with(int num_envs) const;
  RunPtr run_if_allowed(int64_t num_envs) const;  // or null
  RunPtr first_run(const EnvsRoom& room, std::string& end) const;

  const Registry& registry_;
  const Algorithms& algorithms_;
  const ConfigWith config_with_;
  const PolicyFactory policy_factory_;
  std::optional<int> horizon_;  // steps of a rollout that is collected; 0: whole updates
};

}  // namespace flotilla
