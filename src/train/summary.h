// What is said about a run and the machine it ran on: summary.json, and the first lines of reports.
#pragma once

#include <optional>
#include <string>

#include "flotilla/core/json.h"
#include "flotilla/train/checkpoint_state.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

// "64 x cartpole, threads back end, 2 threads; ppo, 4-64-64 tanh, fused avx512; seed 0".
std::string run_header(const RunConfig& run, const RunShape& shape);

// The machine, and what the policy runs on: "torch" and "blas_kernel" are null where libtorch is
// not loaded.
Json machine_json(const RunShape& shape);

Json eval_json(const Evaluation& eval, const EnvSpec& env);

// docs/metrics.md lists the fields. `ended_by`: see Run.
Json summary_json(const RunConfig& run, const Trainer& trainer, const Evaluation& eval,
                  const std::optional<BestEvaluation>& best, double wall_s,
                  const std::string& ended_by);

}  // namespace flotilla
