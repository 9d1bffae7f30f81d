// Which settings of a run may change when it is resumed, and which did.
#pragma once

#include <string>
#include <vector>

#include "flotilla/train/checkpoint_state.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

// What the settings of a run differ in from those of its checkpoint at `path`, each as "key: old ->
// new". Throws Error(kUsage) for what may not change, Error(kData) for a checkpoint of something
// else.
std::vector<std::string> changes_since(const CheckpointState& state, const std::string& path,
                                       const RunConfig& run);

}  // namespace flotilla
