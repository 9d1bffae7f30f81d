#include <immintrin.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace amx {
namespace {

#include "flotilla/nn/fused/simd.h"

#include "flotilla/domains/dvrp/oracle/x86/product_amx.h"

#include "flotilla/domains/dvrp/oracle/kernel_body.h"

}  // namespace
}  // namespace amx

const OracleKernels kOracleAmx = {"amx", amx::pack_matrix, amx::work_size, amx::encode, amx::score};

}  // namespace flotilla::dvrp
