// Checkpoints of a run: RUN/checkpoints/step_N/ with
//   model.safetensors      parameters and normalisers; what acting needs
//   optimizer.safetensors  Adam's moments and step counts
//   state.json             everything else of the run, and the SHA-256 of the two files
//
// A checkpoint is written to a temporary directory, synced and renamed: it is there whole or not at
// all. Reading checks every file against its checksum before anything of the run is changed; an
// altered, torn or foreign one is an Error(kData) that names the file and offers the one before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/train/trainer.h"

namespace flotilla {

class Checkpoints {
 public:
  static constexpr int kFormat = 1;

  // `run_directory` need not hold any yet.
  explicit Checkpoints(const std::string& run_directory);

  // Writes the state after the trainer's last update as step_N.
  void write(const Trainer& trainer, const RunConfig& run) const;
  // Deletes all but the last `keep`, and those of a step in `spared`.
  void prune(int keep, const std::vector<int64_t>& spared) const;

  std::vector<int64_t> steps() const;  // of the checkpoints there are, ascending
  std::string path(int64_t step) const;

  // Puts a trainer of the same environment and network into the state of that checkpoint.
  void load(int64_t step, Trainer& trainer, const RunConfig& run) const;

 private:
  std::string directory_;
};

}  // namespace flotilla
