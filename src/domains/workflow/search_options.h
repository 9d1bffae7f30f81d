// The settings of a search over workflows.
#pragma once

#include <cstdint>
#include <string>

#include "flotilla/core/config.h"
#include "flotilla/domains/workflow/acquisition.h"
#include "flotilla/domains/workflow/compliance_stop.h"

namespace flotilla::workflow {

struct SearchOptions {
  enum class Method : uint8_t { kUcb, kLegacy, kRandom, kExhaustive };
  // Whose weights training for a workflow starts with: new ones; those trained last; those of the
  // nearest workflow trained so far; those of its own last training.
  enum class Inherit : uint8_t { kNone, kPrevious, kNearest, kOwn };

  int n_envs = 25;
  int n_workflows = 20;       // 0: no limit
  int64_t episodes = 0;       // of all trainings together; 0: no limit
  int episodes_per_env = 50;  // at most, for a workflow
  ComplianceStop::Options stop;
  bool gate = true;  // a workflow that misses the threshold counts as failed
  Method method = Method::kUcb;
  AcquisitionOptions acquisition;
  Inherit inherit = Inherit::kPrevious;
  uint64_t seed = 0;

  static Schema schema();
  // Throws Error(kUsage) for what cannot be searched with.
  static SearchOptions from(const Config& config);
};

}  // namespace flotilla::workflow
