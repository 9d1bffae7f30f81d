// Which of the oracle's kernels this CPU can run, and which one the program takes.
#pragma once

#include <span>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {

// Those that are compiled for this architecture, the fastest first, kOraclePortable last.
std::span<const OracleKernels* const> compiled_oracle_kernels();
bool can_run(const OracleKernels& kernels);
bool multiplies_coarsely(const OracleKernels& kernels);  // with 8 bits instead of 24
// The fastest that can run; those of FLOTILLA_KERNEL where that is set.
const OracleKernels& oracle_kernels();

}  // namespace flotilla::dvrp
