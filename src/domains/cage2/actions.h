// The two sets of actions a defender can be given: all 145 of the challenge, or 36, where nine
// stand for "the next decoy on this host" from a list.
#pragma once

#include <span>

#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

constexpr int kRawActions = 27, kReducedActions = kRawActions + kDecoyHosts;

struct DecoyList {
  int host;
  std::array<uint8_t, 4> actions;  // of the 145
  int count;
};
// In the order of the reduced actions.
extern const std::array<DecoyList, kDecoyHosts> kDecoyLists;
extern const std::array<uint8_t, kRawActions> kRawActionList;

// The action of the 145 that a reduced one stands for now, and what that changes. A list that is
// used up starts over, which does nothing to the network.
int expand_action(int reduced, State& state);
// Blue's own bookkeeping: a Restore of a host forgets the decoys of its list.
void note_restore(int action, State& state);

void mask_reduced(const State& state, std::span<uint8_t> mask);
// All but decoys that would fail: the host does not run them, or the port is taken.
void mask_full(const State& state, std::span<uint8_t> mask);

}  // namespace flotilla::cage2
