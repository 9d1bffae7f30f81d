#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace portable {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 4, kBlockVectors = 2;

#include "flotilla/domains/dvrp/oracle/product_fma.h"

#include "flotilla/domains/dvrp/oracle/kernel_body.h"

}  // namespace
}  // namespace portable

const OracleKernels kOraclePortable = {"portable", portable::pack_matrix, portable::work_size,
                                       portable::encode, portable::score};

}  // namespace flotilla::dvrp
