// Processes that find each other through torch's c10d and talk by Gloo, or on one host through
// memory that they share. It needs libtorch and stands in a plugin of its own, which is opened on
// first use.
//
// c10d knows no secrets: whoever reaches the port can join or listen. What is sent on one host
// stays on loopback; between hosts it goes to and from the address that the launcher gave.
#pragma once

#include <memory>

#include "flotilla/core/collective.h"
#include "flotilla/core/endpoint.h"
#include "flotilla/core/launch.h"

namespace flotilla {

struct MeetingOptions {
  int port = 0;            // of rank 0, where all meet; 0: the one behind MASTER_PORT
  double deadline_s = 30;  // without a sign of life, after which a process is given up
};

// Waits for all of them. Throws Error(kEnvironment) that names those who do not come within the
// deadline, Error(kUsage) where the address or the port does not do; of a port that another
// program has, in all of them.
std::unique_ptr<Collective> meet(const Launch& launch, const MeetingOptions& options);

// A learner to which actors come, each of which is a pair with it. On loopback they find each other
// by a file of their user's own; on another address c10d listens on the port of all interfaces.
// Throws Error(kUsage) where the address or the port does not do.
std::unique_ptr<Listener> listen_for_actors(const Endpoint& at, double deadline_s);
// An actor's side: waits for the learner. Throws Error(kEnvironment) where none is there within
// `wait_s`, Error(kUsage) for what is no address.
std::unique_ptr<Collective> join_learner(const Endpoint& at, double wait_s);

}  // namespace flotilla
