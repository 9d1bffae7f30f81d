#include "flotilla/train/resume_changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"

namespace flotilla {
namespace {

constexpr const char* kNoText = "\"\"";  // as YAML

// Keys that say what a run's state looks like, or what its random numbers mean.
bool is_fixed(const std::string& key) {
  // Where things are may differ from machine to machine.
  for (const char* suffix : {".device", ".library", ".resource_root"}) {
    if (key.ends_with(suffix)) return false;
  }
  for (const char* prefix : {"env.", "net."}) {
    if (key.starts_with(prefix)) return true;
  }
  // A curriculum, too: phases are known by their number, and set keys of the environment.
  static const std::vector<std::string> fixed = {"seed",      "num_envs",      "replicas",
                                                 "algo",      "normalize_obs", "normalize_reward",
                                                 "init",      "explore.cells", "explore.resolution",
                                                 "curriculum"};
  return std::ranges::count(fixed, key) > 0;
}

// Whether a change from one config to the other begins or ends the counting of observations, and
// with it the counts that a checkpoint has.
bool begins_or_ends_counting(const Config& before, const Config& now) {
  const auto counts = [](const Config& config) {
    return ExplorationOptions::from(config, "explore.").on();
  };
  return counts(before) != counts(now);
}

// What the rollouts depend on that a checkpoint of actors holds.
bool holds_rollouts(const std::string& key) {
  return key == "n_steps" || key.starts_with("async.");
}

}  // namespace

std::vector<std::string> changes_since(const CheckpointState& state, const std::string& path,
                                       const RunConfig& run) {
  if (state.env != run.type.name) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: is of '{}', this run is of '{}'", path, state.env, run.type.name));
  }
  Config before(run.config.schema());
  try {
    before.load_yaml_text(state.config, path);
  } catch (const Error& error) {  // of another version of the program
    throw Error(ErrorCode::kData, error.what());
  }
  const bool other_counts = begins_or_ends_counting(before, run.config);
  std::vector<std::string> changes;
  for (const Key& key : run.config.schema().keys()) {
    const std::string old = before.text(key.name), now = run.config.text(key.name);
    if (old == now) continue;
    const bool actors = (key.name == "backend" && (old == "actors" || now == "actors")) ||
                        (key.name == "cluster.listen" && (old == kNoText || now == kNoText));
    const bool state_changes = is_fixed(key.name) || actors ||
                               (run.asynchronous() && holds_rollouts(key.name)) ||
                               (other_counts && key.name.starts_with("explore.bonus"));
    if (state_changes) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("a resumed run cannot change {} from {} to {}", key.name, old, now));
    }
    changes.push_back(fmt::format("{}: {} -> {}", key.name, old, now));
  }
  return changes;
}

}  // namespace flotilla
