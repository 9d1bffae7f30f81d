// One step of CoinRun by the rules of the Procgen library, to the bit: single precision, no fused
// operations, no function whose result differs between machines.
#pragma once

#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

struct StepResult {
  bool died = false;     // touched a saw, an enemy or lava
  bool reached = false;  // touched the coin; both may be
  bool ended() const { return died || reached; }
};

// REQUIRES: state.steps < kMostSteps and 0 <= action < kActions.
StepResult step(State& state, int action);

constexpr float kReward = 10;  // for the coin

}  // namespace flotilla::coinrun
