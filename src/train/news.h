// What the processes of a run tell each other of a rollout, before they learn from it.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/core/collective.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

struct News {
  int64_t failures = 0;      // of envs
  bool interrupted = false;  // one of them was asked to stop
  // That ended, in the order of steps and envs; those of the run have numbers from 0.
  std::vector<Episode> episodes = {};
};

// That of all together. `first_env`: the number of the first env of this process.
News gather_news(Collective& collective, const News& own, int first_env);

}  // namespace flotilla
