#include "flotilla/train/find_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/train/checkpoint.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run_directory.h"

namespace flotilla {
namespace {

// The step that "last", "best" or a number means.
int64_t find_step(const Checkpoints& checkpoints, const std::string& path,
                  const std::string& which) {
  const std::vector<int64_t> steps = checkpoints.steps();
  if (steps.empty()) throw Error(ErrorCode::kData, "'" + path + "' has no checkpoints");
  if (which == "last") return steps.back();
  if (which == "best") {
    const auto best = checkpoints.read_state(steps.back()).best;
    if (!best) {
      throw Error(ErrorCode::kUsage,
                  "'" + path + "' was not evaluated during training (eval_freq), so none is best");
    }
    return best->step;
  }
  for (const int64_t step : steps) {
    if (std::to_string(step) == which) return step;
  }
  throw Error(ErrorCode::kUsage,
              fmt::format("--checkpoint: expected last, best or a step of {}; got '{}'",
                          fmt::join(steps, ", "), which));
}

// Of one policy there is nothing to choose.
void require_no_choice(const std::string& path, const std::string& which) {
  if (which == "last") return;
  throw Error(ErrorCode::kUsage,
              fmt::format("--checkpoint {}: expected the directory of a run, '{}' is one policy",
                          which, path));
}

// "" where its settings are lost.
std::string env_of_run(const Directory& run) {
  if (!run.holds(kConfigFile)) return "";
  try {
    return env_name_in(run.read(kConfigFile, kLargestConfig), run.path(kConfigFile));
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, error.what());
  }
}

PolicyFile read_policy_of(const Checkpoints& checkpoints, int64_t step, const std::string& env) {
  PolicyFile policy = checkpoints.read_policy(step);
  if (env.empty() || policy.origin.env == env) return policy;
  throw Error(ErrorCode::kData, fmt::format("{}: is of '{}', this run is of '{}'",
                                            checkpoints.path(step), policy.origin.env, env));
}

}  // namespace

PolicyFile find_policy(const std::string& path, const std::string& checkpoint) {
  namespace fs = std::filesystem;
  if (!path_exists(path)) {
    throw Error(ErrorCode::kUsage, "there is no run or policy file '" + path + "'");
  }
  if (!fs::is_directory(path)) {
    require_no_choice(path, checkpoint);
    return read_model(path);
  }
  const Directory run(path);
  if (run.holds("model.safetensors")) {
    require_no_choice(path, checkpoint);
    return read_model_in(run);
  }
  const Checkpoints checkpoints(run);
  const int64_t step = find_step(checkpoints, path, checkpoint);
  checkpoints.warn_of_other_runs(step);
  const std::string env = env_of_run(run);
  try {
    return read_policy_of(checkpoints, step, env);
  } catch (const Error& damage) {
    checkpoints.offer_another(damage, step, env, "--checkpoint");
  }
}

bool has_best(const std::string& path) {
  if (!path_exists(path) || !std::filesystem::is_directory(path)) return false;
  const Checkpoints checkpoints{Directory(path)};
  const std::vector<int64_t> steps = checkpoints.steps();
  return !steps.empty() && checkpoints.read_state(steps.back()).best.has_value();
}

std::unique_ptr<Policy> load_policy(const std::string& path, const std::string& checkpoint,
                                    const PolicyOptions& options) {
  return make_policy(find_policy(path, checkpoint), options);
}

const EnvType& env_of(const Registry& registry, const PolicyFile& file) {
  try {
    return registry.find(file.origin.env);
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, file.tensors.origin + ": " + error.what());
  }
}

Config env_config_of(const PolicyFile& file, const EnvType& type) {
  Config config(type.schema);
  try {
    config.load_yaml_text(file.origin.env_config, file.tensors.origin);
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, error.what());
  }
  for (const Key& key : type.schema.keys()) {
    if (key.name.ends_with(".device")) config.set(key.name, "cpu");
  }
  return config;
}

void give_knowledge(const PolicyFile& file, EnvMemory* memory) {
  if (memory == nullptr) return;
  try {
    memory->set_knowledge(file.origin.knowledge);
  } catch (const Error& error) {
    throw Error(error.code(), file.tensors.origin + ": " + error.what());
  }
}

}  // namespace flotilla
