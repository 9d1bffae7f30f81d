// The policy that a path means: a policy file, a directory with a model.safetensors, or one of the
// checkpoints of a run directory.
#pragma once

#include <memory>
#include <string>

#include "flotilla/nn/policy_file.h"

namespace flotilla {

// `checkpoint`: "last", "best" or a step; where the path is no run, "last". Throws Error(kUsage)
// where there is none, Error(kData) for a damaged one.
PolicyFile find_policy(const std::string& path, const std::string& checkpoint);
// Whether one of a run's checkpoints is best: it was evaluated during training.
bool has_best(const std::string& path);

// That policy, ready to act:
//
//   const auto policy = load_policy("runs/cartpole");
//   const int action = policy->predict(obs).discrete();
std::unique_ptr<Policy> load_policy(const std::string& path, const std::string& checkpoint = "last",
                                    const PolicyOptions& options = {});

// The environment that a policy is of, and its settings, for the CPU, wherever it was trained.
// Throw Error(kData) for one that the program does not have, or has in another version.
const EnvType& env_of(const Registry& registry, const PolicyFile& file);
Config env_config_of(const PolicyFile& file, const EnvType& type);
// Lets envs know what those of the policy's training knew. `memory` may be null. Throws
// Error(kData) that names the file.
void give_knowledge(const PolicyFile& file, EnvMemory* memory);

}  // namespace flotilla
