// Processes that find each other through torch's c10d and talk by Gloo. It needs libtorch and
// stands in a plugin of its own, which is opened on first use.
//
// c10d knows no secrets: whoever reaches the port can join or listen. On one host everything stays
// on loopback; between hosts it goes to and from the address that the launcher gave.
#pragma once

#include <memory>

#include "flotilla/core/collective.h"
#include "flotilla/core/launch.h"

namespace flotilla {

struct MeetingOptions {
  int port = 0;            // of rank 0, where all meet; 0: the one behind MASTER_PORT
  double deadline_s = 30;  // without a sign of life, after which a process is given up
};

// Waits for all of them. Throws Error(kEnvironment) that names those who do not come within the
// deadline, Error(kUsage) where the address or the port does not do.
std::unique_ptr<Collective> meet(const Launch& launch, const MeetingOptions& options);

}  // namespace flotilla
