// The common stage of a negotiation's step: what the requests of every env cost, with its shifts
// and without, from one call of a router.
//
// Equal instances are routed once: the baseline's while no shift was accepted, and that of all
// replicas of an env (VecOptions), which get the same requests.
//
// Allocates: nothing after the first step of as many envs, with a router on the CPU.
#pragma once

#include <memory>

#include "flotilla/domains/dvrp/negotiation/negotiation.h"

namespace flotilla::dvrp {

// REQUIRES: `env` and `pool` outlive the stage.
std::unique_ptr<Stage<Negotiation::State>> make_pricing(const Negotiation& env,
                                                        std::unique_ptr<Router> router,
                                                        ThreadPool& pool);

}  // namespace flotilla::dvrp
