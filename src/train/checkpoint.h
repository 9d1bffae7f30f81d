// Checkpoints of a run: RUN/checkpoints/step_N/ with
//   model.safetensors      the policy: what acting needs (nn/policy_file.h)
//   optimizer.safetensors  Adam's moments and step counts
//   state.json             everything else of the run, and the SHA-256 of the two files
//
// A checkpoint is written to a temporary directory, synced and renamed: it is there whole or not at
// all. Only what is known to be written by the same run is ever deleted. Reading checks every file
// against its checksum before anything of the run is changed; an altered, torn or foreign one is an
// Error(kData) that names the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/nn/policy_file.h"
#include "flotilla/train/checkpoint_state.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

// The contents of a checkpoint, before they are written or after they were read and checked.
struct Checkpoint {
  int64_t step = 0;
  std::optional<int64_t> best{};  // the step of the best evaluation so far
  std::string run_id;
  std::string model, optimizer, state;
};

// The state after the trainer's last update.
Checkpoint take_checkpoint(const Trainer& trainer, const RunConfig& run,
                           const std::optional<BestEvaluation>& best,
                           const std::string& run_id = "", const PhaseStart& phase = {});

// Puts a trainer of the same environment and network into that state. `path`: where it is from.
void load_checkpoint(const Checkpoint& checkpoint, const std::string& path, Trainer& trainer);

// For a run that begins.
std::string new_run_id();

class Checkpoints {
 public:
  // `run` need not hold any yet.
  explicit Checkpoints(Directory run) : run_(std::move(run)) {}

  // `sync`: returns when it is on the disk, so that it outlives a crash of the machine.
  // Thread safety: may run beside anything but another member that writes or deletes.
  void write(const Checkpoint& checkpoint, bool sync);
  // Deletes all of this run but the last `keep`, and for each of these the best one before it: from
  // whichever a run goes on, it has its best one. What has another id, is not whole or holds more
  // than a checkpoint does stays.
  void prune(int keep, const std::string& run_id);
  // Deletes those behind `step`, and what is left of one that this run was writing or deleting.
  // What prune() would leave gets another name, lest it be taken for the last one.
  void cut(int64_t step, const std::string& run_id) const;

  // Of the checkpoints there are, ascending. Throws Error(kData) where they cannot be listed.
  std::vector<int64_t> steps() const;
  void require_writable() const;  // throws Error(kUsage)
  std::string path(int64_t step) const;
  std::string model_path(int64_t step) const;

  CheckpointState read_state(int64_t step) const;
  // The policy alone, checked against the checksum in the state.
  PolicyFile read_policy(int64_t step) const;
  // Throws Error(kData) unless all of its files are as they were written; returns its state.
  CheckpointState require_whole(int64_t step) const;
  // The last before `step` that is whole, and of that environment unless it is "".
  std::optional<int64_t> last_whole_before(int64_t step, std::string_view env) const;
  // Throws `error`, of a damaged checkpoint, with the whole one before it and the option for it.
  [[noreturn]] void offer_another(const Error& error, int64_t step, std::string_view env,
                                  std::string_view option) const;

  // Warns where others of another run lie beside the one that is taken.
  void warn_of_other_runs(int64_t step) const;

  // All of it, whole.
  Checkpoint read(int64_t step) const;
  // Puts a trainer of the same environment and network into the state of that checkpoint.
  void load(int64_t step, Trainer& trainer) const {
    load_checkpoint(read(step), path(step), trainer);
  }

 private:
  std::string state_path(int64_t step) const;
  Directory all() const;                 // the folder of the checkpoints
  Directory folder(int64_t step) const;  // of one of them
  bool remove(int64_t step, const std::string& run_id) const;
  // The step of its best evaluation, if it has one that can be read; known of what was written.
  std::optional<int64_t> best_of(int64_t step);

  Directory run_;
  std::map<int64_t, std::optional<int64_t>> bests_;  // by the step of the checkpoint
  std::vector<int64_t> others_;                      // that prune() has found not to be of this run
};

// The policy file at `path`, which may be a link, as the caches of other programs have them; a
// model.safetensors is checked against the checksum in the state.json beside it where there is one.
// Throws Error(kData).
PolicyFile read_model(const std::string& path);
// The model.safetensors in a folder, likewise checked; it must not be a link.
PolicyFile read_model_in(const Directory& folder);

}  // namespace flotilla
