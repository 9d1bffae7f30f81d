// A curriculum: parts of a run, one after another, each with settings of its own.
//
//   curriculum:
//     - env.length: 0.5
//       until_score: 450          # mean return of the last 100 episodes of the phase
//     - env.length: 1.0
//       until_steps: 100k         # of the phase
//     - env.length: 2.0           # to the end of the run
//
// The policy, its optimiser, its normalisers and the schedules go on from phase to phase; the
// environments are made anew, with the same spaces and other random numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/train/run_config.h"

namespace flotilla {

struct CurriculumPhase {
  std::vector<std::string> settings;  // "env.length=0.5"
  int64_t until_steps = 0;            // 0: no such end
  std::optional<double> until_score;
};

// The phases of a run's config; one without settings or an end where it has none. Throws
// Error(kUsage) that names the phase and what is wrong.
std::vector<CurriculumPhase> phases_of(const RunConfig& run);

// The run as it is in a phase. Throws Error(kUsage) where the phase sets what it must not: anything
// but the environment and the algorithm, or other spaces.
RunConfig in_phase(const RunConfig& run, const std::vector<CurriculumPhase>& phases, size_t index,
                   const Algorithms& algorithms);

}  // namespace flotilla
