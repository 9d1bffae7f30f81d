// Several processes that train one run: rank 0 has the run, with its directory, its limits and its
// decisions, and says what is done next; the others have a trainer alone (train/follower.h).
#pragma once

#include <cstdint>
#include <string>

#include "flotilla/core/collective.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

enum class Order : uint64_t {
  kStart,    // make a trainer for the settings and the phase
  kLoad,     // take the state of a checkpoint
  kIterate,  // one rollout and one update
  kSave,     // send the states of the environments
  kEnd
};

// One of them, with what belongs to it.
struct OrderSheet {
  Order order = Order::kEnd;
  double fraction = 0;              // of the run, before the update
  std::string config = {};          // YAML, all keys
  int phase = 0;                    // of a curriculum
  std::string implementation = {};  // of rank 0, where all must have the same
  // Of a checkpoint (train/checkpoint.h). Without a state it is the policy alone that is taken.
  std::string model = {}, optimizer = {}, state = {};
};

// Rank 0 says it; nothing happens where it is alone.
void give_order(Collective& collective, const OrderSheet& sheet);
// To begin, or to go on with the next phase. `implementation`: of its trainer.
void order_start(const RunConfig& run, const std::string& implementation, int phase = 0);
// The others wait for it.
OrderSheet take_order(Collective& collective);

}  // namespace flotilla
