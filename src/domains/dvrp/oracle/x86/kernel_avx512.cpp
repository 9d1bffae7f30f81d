#include <immintrin.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace avx512 {
namespace {

#include "flotilla/domains/dvrp/oracle/kernel_panels.h"

}  // namespace
}  // namespace avx512

const OracleKernels kOracleAvx512 = avx512::kernels_of("avx512");

}  // namespace flotilla::dvrp
