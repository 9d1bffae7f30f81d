// The same run with many seeds: what a recipe can be trusted to reach.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flotilla/core/system.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

struct SweepOptions {
  uint64_t first_seed = 0;
  int seeds = 10;
  int at_once = cpu_count();  // trainings beside each other, each with one thread
  std::string directory;      // of the runs, seedN each; "": a temporary one, which is removed
  PolicyFactory policy_factory = {};  // of a program that brings a policy of its own
};

struct SeedResult {
  uint64_t seed = 0;
  double score = 0;             // mean return of the final policy's evaluation, as in summary.json
  std::vector<Metric> metrics;  // means of the env's own in that evaluation, by their names
  int64_t steps = 0;
  double wall_s = 0;
  std::string kernel, config_sha256;
  std::string error;  // what ended the training; "" where it went well
};

// Trains with every seed; `after` sees the results as they come, from one thread at a time. The
// results are in the order of the seeds, and those of `flotilla train --seed N`. Throws
// Error(kUsage) for a config that cannot be trained, Error(kInterrupted) when the process is
// interrupted; another failure is the result of its seed.
std::vector<SeedResult> sweep(const EnvType& type, const Config& config,
                              const Algorithms& algorithms, const SweepOptions& options,
                              const std::function<void(const SeedResult&)>& after = {});

}  // namespace flotilla
