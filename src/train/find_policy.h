// The policy that a path means: a policy file, a directory with a model.safetensors, or one of the
// checkpoints of a run directory.
#pragma once

#include <string>

#include "flotilla/nn/policy_file.h"

namespace flotilla {

// `checkpoint`: "last", "best" or a step; of a file it does not count. Throws Error(kUsage) where
// there is none, Error(kData) for a damaged one.
PolicyFile find_policy(const std::string& path, const std::string& checkpoint);

}  // namespace flotilla
