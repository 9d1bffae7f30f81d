// What `train` and `bench ppo` share: which run is meant.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "flotilla/cli/command.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

class RunArguments {
 public:
  enum class For : uint8_t { kTraining, kBench };
  // For training there are options for limits, checkpoints and --resume besides.
  explicit RunArguments(For purpose);
  void add_to(CLI::App& command);
  // The config that recipe, key=value settings and options make, in this order. `plain`: without
  // the recipe of an environment's name.
  Config config(const Registry& registry, bool plain) const;
  // The directory of the run to go on with, or "".
  const std::string& resume() const { return resume_; }
  std::optional<int64_t> from_step() const { return from_step_; }
  // Puts settings and options over the config of that run. Throws Error(kUsage) when the arguments
  // name another environment.
  void adjust(const Registry& registry, Config& config) const;

 private:
  void apply_options(Config& config) const;

  const For purpose_;
  std::string what_, duration_, resume_, customers_;
  std::optional<int> update_interval_;
  std::optional<int64_t> from_step_;
  std::vector<std::string> overrides_;
  SchemaFlags flags_;
};

// "90", "90s", "10m", "1.5h" in seconds.
double parse_duration(const std::string& text);

}  // namespace flotilla
