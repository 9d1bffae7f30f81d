// The routing oracle on CPU: encodes a tile of instances at once, then decodes each of them, on
// the threads of a pool.
//
// Determinism: bit-equal tours for any batch, chunk size or number of threads, on one kind of CPU.
// Allocates: for the tours; work memory grows to the largest call and stays.
#pragma once

#include <memory>

#include "flotilla/domains/dvrp/oracle/weights.h"
#include "flotilla/domains/dvrp/router.h"

namespace flotilla::dvrp {

struct DecodeOptions {
  int starts = 1;   // tours are decoded from that many first pickups, the likeliest ones first
  int improve = 0;  // passes of local search over the best of them
  int refine = 0;   // iterations of large-neighbourhood search behind that
  bool sampled = false;
  uint64_t seed = 0;  // of sampling; the i-th instance of a call has a stream of its own

  bool operator==(const DecodeOptions&) const = default;
};

// The tour after local search, as the options say.
Tour finished(const Instance& instance, Tour tour, const DecodeOptions& options);

// `city` and `pool` must outlive it.
std::unique_ptr<Router> make_network_router(const OracleWeights& weights, const City& city,
                                            const DecodeOptions& options, ThreadPool& pool);

}  // namespace flotilla::dvrp
