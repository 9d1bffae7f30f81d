// Repeats recorded games with the simulator and compares every fact of every step.
#pragma once

#include <string>

#include "flotilla/domains/cage2/recording.h"

namespace flotilla::cage2 {

enum class ReplayMode : uint8_t {
  kOutcomes,  // the recorded choices of red and green are fed in
  kSeed       // everything is drawn again from the seed; of the recording only blue's actions count
};

struct ReplayResult {
  int64_t episodes = 0, steps = 0;
  int64_t mismatches = 0;      // facts that differ
  std::string first_mismatch;  // "line 3, step 17, observation: expected ..., got ..."
};

ReplayResult replay(const std::string& path, ReplayMode mode, bool legacy);

}  // namespace flotilla::cage2
