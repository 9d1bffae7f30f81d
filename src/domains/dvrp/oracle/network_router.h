// The routing oracle on CPU: encodes a tile of instances at once, then decodes each of them, on
// the threads of a pool.
//
// Determinism: bit-equal tours for any batch, chunk size or number of threads, on one kind of CPU.
// Allocates: nothing within what was reserved; work memory grows to the largest call otherwise, and
// stays.
#pragma once

#include <memory>

#include "flotilla/domains/dvrp/oracle/weights.h"
#include "flotilla/domains/dvrp/routing/router.h"

namespace flotilla::dvrp {

// `city` and `pool` must outlive it.
std::unique_ptr<Router> make_network_router(const OracleWeights& weights, const City& city,
                                            const DecodeOptions& options, ThreadPool& pool);

}  // namespace flotilla::dvrp
