// What is said about a run and the machine it ran on: summary.json, and the first lines of reports.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "flotilla/train/checkpoint_state.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

// "64 x cartpole, threads back end, 2 threads; ppo, 4-64-64 tanh, fused avx512; seed 0".
std::string run_header(const RunConfig& run, const RunShape& shape);

// The machine, and what the policy runs on: "torch" and "blas_kernel" are null where libtorch is
// not loaded.
nlohmann::ordered_json machine_json(const RunShape& shape);

nlohmann::ordered_json eval_json(const Evaluation& eval, const EnvSpec& env);

// docs/metrics.md lists the fields.
nlohmann::ordered_json summary_json(const RunConfig& run, const Trainer& trainer,
                                    const Evaluation& eval,
                                    const std::optional<BestEvaluation>& best, double wall_s);

}  // namespace flotilla
