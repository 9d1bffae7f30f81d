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
#include "flotilla/train/curriculum.h"
#include "flotilla/train/metrics.h"
#include "flotilla/train/run_directory.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

class Run {
 public:
  // A new run, in a directory that holds none; "": in one of its own under runs/. Writes
  // config.yaml and checkpoints/step_0. `algorithms` outlive it.
  explicit Run(const RunConfig& config, const std::string& directory = "",
               const Algorithms& algorithms = built_in_algorithms());

  // Goes on with the run in a directory, from its last checkpoint or the one of `from_step`.
  // `adjust` may change settings, but not the environment, the network, the number of envs and
  // what else the state of a run depends on: Error(kUsage) names the key. An altered or torn
  // checkpoint is an Error(kData) that offers the last whole one before it.
  using Adjust = std::function<void(Config&)>;
  static std::unique_ptr<Run> resume(const Registry& registry, const std::string& directory,
                                     const Adjust& adjust = {},
                                     std::optional<int64_t> from_step = std::nullopt,
                                     const Algorithms& algorithms = built_in_algorithms(),
                                     const PolicyFactory& policy_factory = {},
                                     Collective& collective = alone());

  // Trains until a limit, an early stop, or until `after`, which sees every update, stops it. A run
  // that was stopped so ends like any other, with a checkpoint; resumed, it goes on to its limits.
  void train(const UpdateCallback& after = {});
  // Whether there is nothing left to train.
  bool finished() const;
  bool stopped_early() const;  // by an evaluation, before a limit
  // What ended it: a limit, by its key, what an evaluation was for, or "callback"; "" while it is
  // not finished.
  std::string ended_by() const;
  // Whether it was finished, with summary.json, when it was opened; then train() and finish() have
  // nothing to do.
  bool was_finished() const { return was_finished_; }

  // Evaluates the policy and writes summary.json; returns its text.
  std::string finish();
  std::string summary() const;  // of a run that was finished
  // Lets other processes that train with this one go. Nothing is left to do then.
  void end() const;

  // Puts a file of the caller's beside those of the run. Throws Error(kData).
  void add_file(const std::string& name, const std::string& text) const {
    directory_.write(name, text);
  }

  const RunConfig& config() const { return run_; }
  const std::string& path() const { return directory_.path(); }
  Trainer& trainer() { return *trainer_; }
  const Trainer& trainer() const { return *trainer_; }
  const Evaluation& evaluation() const { return evaluation_; }  // of finish()
  double wall_s() const;  // since the run was opened, and before that in earlier processes
  // Settings that differ from those of the checkpoint: "ppo.learning_rate: 0.001 -> 0.0005".
  const std::vector<std::string>& changes() const { return changes_; }

 private:
  Run(const RunConfig& config, const Algorithms& algorithms, RunDirectory directory,
      const PhaseStart& phase);

  void begin();  // the files of a run that has none
  void share_policy() const;
  void set_up();
  void go_on_from(int64_t step, const CheckpointState& state);  // which is loaded
  void iterate(const UpdateCallback& after);
  bool phase_ended() const;
  void next_phase();
  bool evaluation_due() const;
  void warn_of_long_updates(double update_s);
  std::optional<Evaluation> evaluate_if_due();
  std::string why_stopped() const;  // "" unless early
  bool checkpoint_due() const;
  void checkpoint(bool sync);
  void wait_for_checkpoint();
  // What follows `train` to go on with it: the name of code that no file may name alone, too.
  std::string how_to_resume(const std::string& place) const;
  [[noreturn]] void stop_interrupted();
  [[noreturn]] void tell_what_is_kept(const Error& error);
  [[noreturn]] void fail(const std::exception& exception) const;
  void record(const std::string& event) const;

  const uint64_t opened_ns_;
  double earlier_s_ = 0;
  const RunConfig run_;
  const Algorithms& algorithms_;
  const std::vector<CurriculumPhase> phases_;
  PhaseStart phase_;
  std::unique_ptr<Trainer> trainer_;
  RunDirectory directory_;
  std::string id_;  // in all of its checkpoints
  Checkpoints checkpoints_;
  std::unique_ptr<MetricsLog> metrics_;
  Mark line_;  // at the last line of metrics
  std::vector<std::string> changes_;
  std::optional<BestEvaluation> best_;
  bool was_finished_ = false, warned_ = false, stopped_by_callback_ = false;
  Evaluation evaluation_;
  int64_t saved_step_ = -1;  // of the last checkpoint
  uint64_t saved_ns_ = 0;
  std::future<void> writing_;  // last: the thread behind it uses what stands above
};

}  // namespace flotilla
