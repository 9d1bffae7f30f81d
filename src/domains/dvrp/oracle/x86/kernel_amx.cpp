#include <immintrin.h>

#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace amx {
namespace {

// clang-format off
#include "flotilla/nn/simd/simd.h"
#include "flotilla/nn/simd/product.h"
#include "flotilla/nn/simd/x86/tiles.h"
// clang-format on

typedef Tiles Products;
constexpr int kWideRows = 128;

#include "flotilla/domains/dvrp/oracle/kernel_body.h"

}  // namespace
}  // namespace amx

const OracleKernels kOracleAmx = amx::kernels_of("amx");

}  // namespace flotilla::dvrp
