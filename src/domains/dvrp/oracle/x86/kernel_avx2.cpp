#include <immintrin.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace avx2 {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 6, kBlockVectors = 2;

#include "flotilla/domains/dvrp/oracle/product_fma.h"

#include "flotilla/domains/dvrp/oracle/kernel_body.h"

}  // namespace
}  // namespace avx2

const OracleKernels kOracleAvx2 = {"avx2", avx2::pack_matrix, avx2::work_size, avx2::encode,
                                   avx2::score};

}  // namespace flotilla::dvrp
