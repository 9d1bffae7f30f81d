#include <arm_neon.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

#define FLOTILLA_NEON  // not by the compiler's own macro: the portable kernel sees that as well

namespace flotilla::dvrp {
namespace neon {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 4, kBlockVectors = 4;

#include "flotilla/domains/dvrp/oracle/product_fma.h"

#include "flotilla/domains/dvrp/oracle/kernel_body.h"

}  // namespace
}  // namespace neon

const OracleKernels kOracleNeon = {"neon", neon::pack_matrix, neon::work_size, neon::encode,
                                   neon::score};

}  // namespace flotilla::dvrp
