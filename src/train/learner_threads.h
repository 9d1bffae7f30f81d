// How many threads an update is worth: with small minibatches or small networks they would rather
// wait for one another.
#pragma once

#include "flotilla/nn/policy.h"

namespace flotilla {

// The number of threads, up to `most`, that finds gradients of so many rows fastest, by trying it
// for some milliseconds. Nothing but speed depends on it.
int threads_worth(Policy& policy, int64_t rows, int most);

}  // namespace flotilla
