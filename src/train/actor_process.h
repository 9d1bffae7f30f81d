// A remote actor: a process that has no run of its own. It asks a learner for the settings, makes
// some of the environments, and plays whole rollouts of them with the policy that it is sent.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "flotilla/core/collective.h"
#include "flotilla/env/registry.h"
#include "flotilla/train/actor_messages.h"
#include "flotilla/train/collector.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

// What whoever starts an actor decides, not the learner.
struct ActorOptions {
  int threads = 0;  // 0: one per CPU
  int workers = 0;  // processes that have the environments; 0: none, or one per thread for Python's
  std::string env = {};  // in Python, that this actor may run: an actor of its own accord runs none
};

class ActorProcess {
 public:
  // Meets the learner, rank 0 of the pair, and makes the environments. All of these outlive it.
  // Throws Error(kUsage) where the learner refuses it, or asks for what it may not do.
  ActorProcess(const Registry& registry, const Algorithms& algorithms,
               const PolicyFactory& policy_factory, Collective& learner,
               const ActorOptions& options);

  // Plays until the process is asked to stop, by Error(kInterrupted); the learner's end is an error
  // of the pair. `after` is called with the steps of all envs so far.
  void play(const std::function<void(int64_t steps)>& after);

  const RunConfig& run() const { return *run_; }
  int first_env() const { return welcome_.first_env; }
  int num_envs() const { return welcome_.num_envs; }

 private:
  ActorWelcome introduced();
  RunConfig settings(const Registry& registry, const Algorithms& algorithms,
                     const ActorOptions& options) const;
  void require_allowed(const std::string& env, const std::string& allowed) const;
  void take_policy(const ActorReport& report);

  Collective& learner_;
  const ActorWelcome welcome_;
  std::unique_ptr<const RunConfig> run_;
  std::unique_ptr<Rollout> rollout_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ThreadPool> pool_;  // where the environments bring no team
  std::unique_ptr<VecEnv> vec_;
  std::unique_ptr<Collector> collector_;
  RewardNormaliser returns_;
  int64_t version_ = 0;
};

}  // namespace flotilla
