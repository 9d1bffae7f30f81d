// Repeats the episode of a crash bundle in this process, without workers or recovery, so that a
// debugger or a sanitizer sees the failure.
#pragma once

#include <string>

#include "flotilla/env/failure.h"
#include "flotilla/env/registry.h"

namespace flotilla {

struct ReplayResult {
  size_t steps = 0;     // made before the failure, or all
  bool failed = false;  // it threw; a crash ends the process instead
  std::string cause;
};

// Throws Error(kData) when the bundle does not fit the environment or is not complete.
ReplayResult replay(const EnvType& type, const CrashBundle& bundle);

}  // namespace flotilla
