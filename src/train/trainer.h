// The training loop: collect a rollout, learn from it, until a limit is reached.
//
// Determinism: with the same config and seed, parameters end up the same for any back end, number
// of threads and workers; with actors (train/actors.h) where their schedule is fixed. Limits of
// wall time are outside of that, as are environments that fail.
#pragma once

#include <concepts>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "flotilla/algo/learner.h"
#include "flotilla/core/blocks.h"
#include "flotilla/core/system.h"
#include "flotilla/nn/policy.h"
#include "flotilla/train/actors.h"
#include "flotilla/train/collector.h"
#include "flotilla/train/evaluator.h"
#include "flotilla/train/orders.h"
#include "flotilla/train/remote_actors.h"
#include "flotilla/train/rollout.h"
#include "flotilla/train/run_config.h"
#include "flotilla/train/timing.h"

namespace flotilla {

// Means over the episodes that ended in one iteration; NaN where all of them ended invalid.
struct EndedEpisodes {
  int64_t count = 0;
  double return_mean = 0, length_mean = 0;
  std::vector<double> metrics;  // of the env, in the order of its spec
  std::vector<double> metrics_ci95;
};

// The state of a run after an update.
struct Progress {
  // Of no episode: below every score that somebody waits for.
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  int64_t steps = 0, episodes = 0, updates = 0;
  int64_t env_failures = 0;
  double wall_s = 0, fraction = 0;  // of the nearest limit
  double steps_per_s = 0;           // of this iteration
  // Of the last 100 valid episodes of this phase of a curriculum; kNone before one has ended.
  double return_mean = kNone, length_mean = kNone;
  double return_best = kNone;  // the best such mean
  EndedEpisodes ended;         // of this iteration
  Update update;
};

// Called after every update. A function that returns a bool stops the training by false; one that
// returns nothing looks on.
class UpdateCallback {
 public:
  UpdateCallback() = default;
  UpdateCallback(std::nullptr_t) {}
  template <std::invocable<const Progress&> Function>
  UpdateCallback(Function function) {
    if constexpr (std::is_void_v<std::invoke_result_t<Function&, const Progress&>>) {
      call_ = [function = std::move(function)](const Progress& progress) mutable {
        function(progress);
        return true;
      };
    } else {
      call_ = std::move(function);
    }
  }

  // Whether training goes on.
  bool operator()(const Progress& progress) const { return !call_ || call_(progress); }

 private:
  std::function<bool(const Progress&)> call_;
};

class Trainer {
 public:
  explicit Trainer(const RunConfig& run);
  ~Trainer();

  // Where crash bundles go, instead of where the config says.
  void set_crash_dir(const CrashFolder& folder);

  // One rollout and one update. Where several processes train, rank 0 says so to the others, which
  // do it by follow().
  void iterate();
  void follow(const OrderSheet& sheet);
  // Iterates until a limit is reached, the process is interrupted, or `after`, which sees every
  // update, stops it. Nothing is written: a Run does that.
  void train(const UpdateCallback& after = {});
  bool finished() const;

  // The state of a run between two iterations, without the policy's parameters and optimiser. A
  // run that is loaded from it goes on as if it had not been stopped (but for a free schedule of
  // actors), by as many processes as there are then. Throws Error(kData) for the state of another
  // run.
  void save(Writer& writer) const;
  void load(Reader& reader);

  // Goes on from the policy and the progress of a trainer whose envs had other settings.
  void take_over(const Trainer& before);

  const RunConfig& run() const { return run_; }
  Policy& policy() { return *policy_; }
  const Policy& policy() const { return *policy_; }
  const Learner& learner() const { return *learner_; }
  // What results depend on beside the settings: what carries out the policy, and what envs do
  // together.
  std::string implementation() const;
  const Progress& progress() const { return progress_; }
  // How many episodes progress().return_mean is of, up to 100.
  size_t recent_episodes() const { return recent_.size(); }
  // Whether any of the processes was asked to stop.
  bool asked_to_stop() const { return asked_to_stop_ || interrupted(); }
  // That ended in the last iteration, in the order of steps and envs.
  const std::vector<Episode>& ended_episodes() const { return ended_; }
  // Plays episodes with the policy as it is. `may_stop`: an interrupt ends it by
  // Error(kInterrupted).
  Evaluation evaluate(bool may_stop = true);
  // What the envs have learnt together: numbers about it, and what acting needs of it.
  std::vector<std::pair<std::string, double>> memory_facts() const;
  std::vector<std::byte> knowledge() const;
  const EnvSpec& env_spec() const { return vec_->spec(); }
  // False: the states of the envs are not in save(), and new episodes begin with load().
  bool keeps_states() const { return vec_->keeps_states(); }
  Timing timing() const;
  // Counts the time since the last update to the run: an evaluation, say.
  void mark_time() { progress_.wall_s = wall_s(); }
  void add_checkpoint_time(double seconds) { timing_.checkpoint_s += seconds; }
  std::string params_sha256() const { return sha256(policy_->parameters()); }
  RunShape shape() const;
  size_t rollout_bytes() const { return vec_->arena().bytes(); }
  double cpu_seconds() const { return vec_->cpu_seconds(); }
  CoreUse core_use() const;  // since this process trains
  // What an evaluation will take: as long as the last one, or by the speed of training; NaN where
  // nothing is known.
  double expected_eval_s() const;

 private:
  ThreadPool& pool();
  ThreadPool& learner_pool();
  int learner_threads();
  double fraction() const;
  int64_t updates_left() const;
  void learn_from_envs(double fraction_done);
  void hear_news();
  void save_envs(Writer& writer) const;
  Collective& processes() const { return blocks_.collective(); }
  void collect(float epsilon);
  void listen(const RunConfig& run);
  void report_lag(const PolicyLag& lag);
  void report_actors();
  void note_episodes();
  void average_recent();
  double wall_s() const;
  std::deque<Episode> read_episodes(Reader& reader) const;
  void scale_rewards();

  RunConfig run_;
  const VecOptions own_envs_;  // those of this process
  Blocks blocks_;
  std::unique_ptr<ThreadPool> own_pool_;      // where the environments bring no team
  std::unique_ptr<ThreadPool> learner_pool_;  // where more or fewer threads learn than act
  Actors::Ring ring_;                         // one rollout, where nobody runs ahead
  std::unique_ptr<Rollout> seat_;             // of actors
  Rollout* rollout_ = nullptr;                // the one that is learnt from
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Collector> collector_;  // or
  std::unique_ptr<Actors> actors_;        // or
  std::unique_ptr<Listener> listener_;    // for
  std::unique_ptr<RemoteActors> remote_;
  std::unique_ptr<Learner> learner_;
  std::vector<float> scaled_reward_;
  std::vector<Episode> ended_;
  std::deque<Episode> recent_;
  std::unique_ptr<Evaluator> evaluator_;  // once it is wanted
  Progress progress_;
  bool asked_to_stop_ = false;
  Timing timing_;
  double earlier_s_ = 0;  // wall time before the run was loaded
  const uint64_t start_ns_;
  uint64_t begin_ns_ = 0;  // of training: all is made
  double begin_cpu_s_ = 0, begin_machine_s_ = 0;
  double last_eval_s_ = 0;  // 0: none so far
  // Last: after an exception a group may still be stepping, with the policy acting in it. It ends
  // before anything it uses.
  std::unique_ptr<VecEnv> vec_;
};

}  // namespace flotilla
