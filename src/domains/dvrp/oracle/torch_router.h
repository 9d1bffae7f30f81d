// The routing oracle on libtorch, for GPUs: greedy or sampled, local search on the CPU.
#pragma once

#include "flotilla/domains/dvrp/oracle/network_router.h"
#include "flotilla/domains/dvrp/oracle/torch_oracle.h"

namespace flotilla::dvrp {

// Instances go to the device in chunks of `max_batch`, which is halved, with a line in the log, as
// long as the device has no room for them. `pool` must outlive the router. Throws Error(kUsage):
// no libtorch, no such device, several starts.
std::unique_ptr<Router> make_torch_router(const OracleWeights& weights, const City& city,
                                          const DecodeOptions& options, int max_batch,
                                          const std::string& device, ThreadPool& pool);
// The same on a network of the caller's, for tests.
std::unique_ptr<Router> make_torch_router(std::unique_ptr<TorchOracle> oracle,
                                          const DecodeOptions& options, int max_batch,
                                          ThreadPool& pool);

}  // namespace flotilla::dvrp
