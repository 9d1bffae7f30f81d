// What `train` and `bench ppo` share: which run is meant.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/command/program.h"
#include "flotilla/command/schema_flags.h"

namespace flotilla {

class RunArguments {
 public:
  enum class For : uint8_t { kTraining, kBench };
  // For training there are options for limits, checkpoints and --resume besides.
  RunArguments(For purpose, const Program& program);
  void add_to(Command& command, const Program& program);
  // The config that recipe, key=value settings and options make, in this order. `plain`: without
  // the recipe of an environment's name.
  // `num_envs`: instead of auto.
  Config config(const Program& program, bool plain,
                std::optional<int> num_envs = std::nullopt) const;
  // Whether the number of envs is to be chosen. Of a run that is resumed it was.
  bool auto_envs() const { return auto_envs_; }
  // The environment that is named may be Python code, though a file names it as well, and has the
  // time to start that is given.
  void admit() const;
  // The directory of the run to go on with, or "".
  const std::string& resume() const { return resume_; }
  std::optional<int64_t> from_step() const { return from_step_; }
  const std::vector<std::string>& overrides() const { return overrides_; }  // key=value
  // To be called once all is parsed. Throws Error(kUsage).
  void take_auto();
  // Puts settings and options over the config of the run at `path`. Throws Error(kUsage) when the
  // arguments name another environment or algorithm; warns where the recipe or file that they name
  // has settings that the run goes on without.
  void adjust(const Program& program, const std::string& path, Config& config) const;

 private:
  void add_domain_option(Command& command, const Program& program, size_t index);
  void apply_options(const Program& program, Config& config, bool is_new) const;
  void require_same_kind(const std::string& path, const Config& config, const Config& named) const;
  // Keys that the recipe or file sets to something else than the run has.
  std::vector<std::string> not_taken(const Program& program, const Config& config,
                                     Config named) const;
  // The environment that is named, directly or by a recipe or file; "": none that is known.
  std::string env_named(const Program& program) const;
  // Whether whoever starts a run set the key himself: by key=value, or in a file of his own.
  bool gives(const Program& program, const Config& config, const std::string& key) const;

  const For purpose_;
  std::string what_, duration_, resume_;
  std::optional<int64_t> from_step_;
  std::vector<std::string> overrides_;
  bool auto_envs_ = false;
  SchemaFlags flags_;
  // What was given of Program::run_options: by place in it, the text.
  std::map<size_t, std::string> domain_options_;
};

// "90", "90s", "10m", "1.5h" in seconds.
double parse_duration(const std::string& text);

}  // namespace flotilla
