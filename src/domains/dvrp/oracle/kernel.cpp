#include "flotilla/domains/dvrp/oracle/kernel.h"

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::dvrp {

bool can_run(const OracleKernels& kernels) {
  if (&kernels == &kOracleAmx) return fused::has_amx();
  return fused::can_run(&kernels == &kOracleAvx512 ? fused::kAvx512
                        : &kernels == &kOracleAvx2 ? fused::kAvx2
                                                   : fused::kPortable);
}

const OracleKernels& oracle_kernels() {
  const fused::Kernels& best = fused::kernels();
  if (&best == &fused::kPortable) return kOraclePortable;
  if (&best == &fused::kAvx2) return kOracleAvx2;
  return fused::may_use_amx() ? kOracleAmx : kOracleAvx512;
}

}  // namespace flotilla::dvrp
