// A training run in its directory: it trains, writes metrics and checkpoints, evaluates, and can be
// stopped at any moment and gone on with as if it had not been.
//
//   RunConfig config(type, load_run_config(registry, "cartpole", false, {}));
//   Run run(config, "runs/mine");
//   run.train();
//   run.finish();            // evaluates, writes summary.json
//
// Checkpoints lie between two updates. They are encoded at once and written by another thread while
// training goes on; the next one, finish() and the destructor wait for it. docs/checkpoints.md has
// the guarantees.
//
// Errors: what cannot be written is an Error(kData) that names the file and says how to go on; the
// last checkpoint is still there. Error(kInterrupted) comes after a checkpoint was written.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/env/registry.h"
#include "flotilla/train/checkpoint.h"
#include "flotilla/train/metrics.h"
#include "flotilla/train/run_directory.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

class Run {
 public:
  // A new run, in a directory that holds none; "": in one of its own under runs/. Writes
  // config.yaml and checkpoints/step_0.
  explicit Run(const RunConfig& config, const std::string& directory = "");

  // Goes on with the run in a directory, from its last checkpoint or the one of `from_step`.
  // `adjust` may change settings, but not the environment, the network, the number of envs and
  // what else the state of a run depends on: Error(kUsage) names the key. An altered or torn
  // checkpoint is an Error(kData) that offers the last whole one before it.
  using Adjust = std::function<void(Config&)>;
  static std::unique_ptr<Run> resume(const Registry& registry, const std::string& directory,
                                     const Adjust& adjust = {},
                                     std::optional<int64_t> from_step = std::nullopt,
                                     const Algorithms& algorithms = built_in_algorithms());

  // Trains until a limit or an early stop; `after` sees every update.
  using AfterUpdate = std::function<void(const Progress&)>;
  void train(const AfterUpdate& after = {});
  // Whether there is nothing left to train.
  bool finished() const;
  // Whether it was finished, with summary.json, when it was opened; then train() and finish() have
  // nothing to do.
  bool was_finished() const { return was_finished_; }

  // Evaluates the policy and writes summary.json; returns its text.
  std::string finish();
  std::string summary() const;  // of a run that was finished

  const RunConfig& config() const { return run_; }
  const std::string& path() const { return directory_.path(); }
  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }
  const Evaluation& evaluation() const { return evaluation_; }  // of finish()
  double wall_s() const;  // since the run was opened, and before that in earlier processes
  // Settings that differ from those of the checkpoint: "ppo.lr: 0.001 -> 0.0005".
  const std::vector<std::string>& changes() const { return changes_; }

 private:
  Run(const RunConfig& config, RunDirectory directory);

  void begin();  // the files of a run that has none
  void set_up();
  void go_on_from(int64_t step, const CheckpointState& state);  // which is loaded
  void iterate(const AfterUpdate& after);
  std::optional<Evaluation> evaluate_if_due();
  bool stopped_early() const;
  bool checkpoint_due() const;
  void checkpoint(bool sync);
  void wait_for_checkpoint();
  [[noreturn]] void stop_interrupted();
  [[noreturn]] void fail(const std::exception& exception) const;
  void record(const std::string& event) const;

  const uint64_t opened_ns_;
  double earlier_s_ = 0;
  const RunConfig run_;
  std::unique_ptr<Trainer> trainer_;
  RunDirectory directory_;
  std::string id_;  // in all of its checkpoints
  Checkpoints checkpoints_;
  std::unique_ptr<MetricsLog> metrics_;
  Mark line_;  // at the last line of metrics
  std::vector<std::string> changes_;
  std::optional<BestEvaluation> best_;
  bool was_finished_ = false;
  Evaluation evaluation_;
  int64_t saved_step_ = -1;  // of the last checkpoint
  uint64_t saved_ns_ = 0;
  std::future<void> writing_;  // last: the thread behind it uses what stands above
};

}  // namespace flotilla
