#include <immintrin.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace avx512 {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 6, kBlockVectors = 4;

#include "flotilla/domains/dvrp/oracle/product_fma.h"

#include "flotilla/domains/dvrp/oracle/kernel_body.h"

}  // namespace
}  // namespace avx512

const OracleKernels kOracleAvx512 = {"avx512", avx512::pack_matrix, avx512::work_size,
                                     avx512::encode, avx512::score};

}  // namespace flotilla::dvrp
