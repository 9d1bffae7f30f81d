#include <immintrin.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace avx2 {
namespace {

#include "flotilla/domains/dvrp/oracle/kernel_panels.h"

}  // namespace
}  // namespace avx2

const OracleKernels kOracleAvx2 = avx2::kernels_of("avx2");

}  // namespace flotilla::dvrp
