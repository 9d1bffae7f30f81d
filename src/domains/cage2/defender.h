// A trained defender: the policy of a file, and the environment it was trained in.
#pragma once

#include <memory>

#include "flotilla/core/config.h"
#include "flotilla/env/registry.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla::cage2 {

struct Defender {
  EnvType type;   // cage2
  Config config;  // of Cage2::schema()
  std::unique_ptr<Policy> policy;
  int time_limit;  // of its training, which may have replaced that of the config
};

// Throws Error(kUsage) for a policy of another environment, Error(kData) for one that does not fit
// this version of it.
Defender defender_of(const PolicyFile& file);

}  // namespace flotilla::cage2
