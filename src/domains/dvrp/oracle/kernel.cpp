#include "flotilla/domains/dvrp/oracle/kernel.h"

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::dvrp {

const OracleKernels& oracle_kernels() {
  const fused::Kernels& best = fused::kernels();
  return &best == &fused::kAvx512 ? kOracleAvx512
         : &best == &fused::kAvx2 ? kOracleAvx2
                                  : kOraclePortable;
}

}  // namespace flotilla::dvrp
