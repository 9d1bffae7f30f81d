// The keys of a training run, for one environment: those of the engine, of the algorithm, of the
// network, and under "env." those of the environment.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "flotilla/algo/algorithms.h"
#include "flotilla/algo/exploration.h"
#include "flotilla/core/collective.h"
#include "flotilla/core/config.h"
#include "flotilla/env/registry.h"
#include "flotilla/env/vec_env.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/train/actors.h"
#include "flotilla/train/evaluator.h"

namespace flotilla {

struct RunLimits {
  // The run ends with the first update that reaches one of them; 0: no such limit.
  int64_t steps = 0, episodes = 0, updates = 0;
  double duration_s = 0;
};

struct CheckpointOptions {
  // Written with the first update that reaches one of them; 0: not because of that.
  int64_t every = 0;    // steps
  double every_s = 60;  // seconds
  int keep = 3;         // of the last ones; the best evaluated one is kept besides
};

// Several processes that train one run. docs/cluster.md.
struct ClusterOptions {
  BlockSum sum = BlockSum::kExact;
  int port = 0;  // where they meet; 0: the one behind MASTER_PORT
  double deadline_s = 30;
  std::string listen;  // "PORT" or "HOST:PORT" where remote actors come; "": there are none
  Collective* collective = &alone();  // set by who starts the run; outlives it
  Listener* listener = nullptr;       // likewise, instead of one at `listen`

  static Schema schema();
  static ClusterOptions from(const Config& config, const std::string& prefix);
};

// Everything a run needs to know, taken from a validated config.
struct RunConfig {
  RunConfig(const EnvType& type, const Config& config,
            const Algorithms& algorithms = built_in_algorithms());

  const EnvType& type;
  const Algorithm& algorithm;
  Config config;       // all keys, effective values
  Config env_config;   // those of the environment alone
  Config eval_config;  // the same for evaluations
  Config algo_config;  // those of the algorithm alone
  EnvSpec spec;        // of the environment, with these settings
  VecOptions vec;
  AsyncOptions async;            // of the actors back end
  int threads = 1;               // that act and step environments
  int learner_threads = 0;       // 0: as many as pay, ...
  int most_learner_threads = 1;  // ... up to these
  int n_steps = 128;
  uint64_t seed = 0;
  uint64_t env_seed = 0;  // of the environments; another one in every phase
  RunLimits limits;
  std::string init;  // run or policy file of a warm start, or ""
  std::string policy, device;
  PolicyFactory policy_factory;  // set by programs that bring a policy of their own; or empty
  bool normalise_reward = false;
  ExplorationOptions exploration;
  NetworkSpec network;
  EvalOptions eval;
  CheckpointOptions checkpoint;
  ClusterOptions cluster;

  // In how many blocks the algorithm looks at the envs.
  int blocks() const;
  // The envs of this process. Throws Error(kUsage) where blocks cannot be shared out.
  VecOptions own_envs() const;

  static Schema schema(const EnvType& type, const Algorithm& algorithm = default_algorithm());
  static Schema vec_schema();  // of VecOptions, with the defaults of runs
  static constexpr int64_t kSteps = 1'000'000;

  // Keys that were given on the command line and mean nothing, by the setting that makes it so.
  std::map<std::string, std::vector<std::string>> without_effect() const;
  // The setting because of which a key means nothing, such as "backend=threads"; "": it does.
  std::string made_idle_by(const std::string& key) const;
  void require_learning_actors() const;  // throws Error(kUsage)
  void require_equal_blocks() const;     // likewise
  void require_remote() const;           // likewise
  // Lets the environment fill in what is left open.
  void fill_in();
  // Whether actors run ahead of the learner.
  bool asynchronous() const { return vec.backend == Backend::kActors; }
  // Whether they are processes elsewhere.
  bool remote() const { return !cluster.listen.empty(); }
};

// Of a directory that may have come from somebody else, who is not asked where to write outside of
// it: a crash_dir that is not the default is dropped, with a warning.
void keep_crashes_inside(Config& config, const std::string& path);

}  // namespace flotilla
