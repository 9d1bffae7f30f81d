// Plays whole episodes with a policy, or with anything else that acts, apart from training: own
// environments, own seeds, frozen normalisers. Every env plays the same number of episodes, so that
// short ones are not preferred. Where an env has no time limit, an episode ends after
// kLongestEvaluated steps, with a warning: a good policy might play for ever.
//
// Where policy and envs can, and nobody observes the episodes, envs play alone and in as many
// threads as the policy acts in; the result is the same.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "flotilla/core/activity.h"
#include "flotilla/nn/policy.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

constexpr int kLongestEvaluated = 100'000;

struct Evaluation {
  int episodes = 0;
  // Of those that ended valid; of a single one `std` and `ci95` are NaN.
  double mean = 0, std = 0, ci95 = 0, mean_length = 0;
  std::vector<double> metrics;  // means of the env's own, in the order of its spec
  std::vector<double> metrics_ci95;
  double wall_s = 0;
};

struct EvalOptions {
  int episodes = 100;
  bool deterministic = true;
  int64_t freq = 0;    // steps between evaluations during training; 0: as `every` says
  int every = 0;       // updates between them; 0: only at its end
  double stop_at = 0;  // mean return at which training ends; infinity: none
  int patience = 0;    // evaluations without a better one after which it ends; 0: no end
  uint64_t seed = 0;
  int first_env = 0;  // number of the first env that plays
  // Each env plays one episode, so that episode e depends on the seed and the number first_env + e
  // alone. Otherwise as many envs as step well together share the episodes.
  bool one_each = false;
  // How long episodes may be, whose failure handling is used, and whose worker processes where it
  // has some.
  VecOptions vec;

  static Schema schema();
  static EvalOptions from(const Config& config, const std::string& prefix, uint64_t run_seed);
};

// The seed of evaluations of a run, apart from all of its training.
uint64_t eval_seed(uint64_t run_seed);

// Writes `action` of every row, given what it shows and the number of steps made before.
using Player = std::function<void(const ActRows& rows, uint64_t step)>;

class Evaluator {
 public:
  // `spec`: of the env with these settings, made where it is not at hand.
  Evaluator(const EnvType& type, const Config& env_config, const EvalOptions& options);
  Evaluator(const EnvType& type, const Config& env_config, const EvalOptions& options,
            const EnvSpec& spec);

  // For what the envs are to know from their training; null where they know nothing.
  EnvMemory* memory() const { return vec_ == nullptr ? nullptr : vec_->memory(); }
  // Sees the episodes that count. Envs have numbers from 0 here: with one_each, those of the
  // episodes. An env that fails and is given a new episode may show two. Where the envs cannot show
  // them, play() throws Error(kUsage).
  void set_episode_observer(EpisodeObserver observer) { observer_ = std::move(observer); }
  // Always the same episodes: starts anew from the seed. `may_stop`: an interrupt ends it by
  // Error(kInterrupted).
  Evaluation play(const ActingPolicy& policy, bool may_stop);
  Evaluation play(const Player& player, bool may_stop);

 private:
  // All of an evaluation: plays those that sit at this time, and adds their episodes.
  using PlaySeated = std::function<void(std::vector<Episode>& episodes, Activity& activity)>;
  Evaluation play_all(int threads, const PlaySeated& play_seated);
  int threads_for(const ActingPolicy& policy) const;
  void seat(Span envs, int threads);
  void begin_seated();
  void play_together(const Player& player, bool may_stop, std::vector<Episode>& episodes,
                     Activity& activity);
  void play_alone(const ActingPolicy& policy, bool may_stop, std::vector<Episode>& episodes,
                  Activity& activity);
  ActRows rows_of(Span envs) const;
  Draw draw_at(uint64_t step) const;
  void tell(Activity& activity, size_t episodes, uint64_t steps) const;
  void observe_seated();
  void step(const Player& player, uint64_t step);
  double fraction_done(size_t episodes, uint64_t steps) const;
  bool endless() const { return spec_.time_limit == 0; }
  void warn_of_cut(const std::vector<Episode>& episodes) const;

  const EnvType type_;
  const Config env_config_;
  const EvalOptions options_;
  const EnvSpec spec_;
  const int envs_;  // in all
  EpisodeObserver observer_;
  // Those that play at this time: not more than step well together.
  Span seated_;
  int threads_ = 0;        // that play them
  size_t before_ = 0;      // episodes that others played before them
  bool observed_ = false;  // they show their episodes to observer_
  std::unique_ptr<Rollout> rollout_;
  std::unique_ptr<VecEnv> vec_;
  std::vector<int> left_;  // episodes that each of them is still to play
};

}  // namespace flotilla
