// Where the time of a run went, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "flotilla/core/serial.h"
#include "flotilla/nn/policy.h"

namespace flotilla {

struct Timing {
  double start_s = 0;      // until all is made; of this process alone
  double step_s = 0;       // environments, each on its own
  double stage_s = 0;      // what batched ones do together
  double infer_s = 0;      // the policy acting
  double wait_s = 0;       // of the calling thread for the others
  double advantage_s = 0;  // GAE
  double update_s = 0;     // gradient descent
  double eval_s = 0;
  double checkpoint_s = 0;  // that training waited for one to be written
  double other_s = 0;

  double collect_s() const { return step_s + stage_s + infer_s + wait_s; }
  double learn_s() const { return advantage_s + update_s; }
  double total_s() const {
    return start_s + collect_s() + learn_s() + eval_s + checkpoint_s + other_s;
  }

  void save(Writer& writer) const;
  void load(Reader& reader);

  // A tree of lines, with shares.
  std::string tree() const;
};

struct RunShape {
  std::string backend;
  Implementation policy;
  std::string faster_updates;  // Algorithm::faster
  int num_envs = 0, threads = 1, learner_threads = 1, workers = 0, cores = 1;
  double env_step_s = 0;        // that all envs take for one step; 0: not known
  std::string stage_hint = {};  // of the environment, see EnvType
  bool foreign = false;         // its envs are in workers of another program

  bool fused() const { return policy.kind == "fused"; }
  bool on_gpu() const { return policy.memory == Memory::kCuda; }
};

// Who used the cores while a run trained, in CPU seconds.
struct CoreUse {
  double wall_s = 0;
  double own_s = 0;     // all threads and workers of the run
  double others_s = 0;  // other programs; NaN: not known
};

// One sentence: what most of the time goes into, and what to change. It advises more threads only
// where there are cores for them, and where other programs hold the cores, it says so.
std::string bottleneck(const Timing& timing, const RunShape& shape, const CoreUse& use = {});

}  // namespace flotilla
