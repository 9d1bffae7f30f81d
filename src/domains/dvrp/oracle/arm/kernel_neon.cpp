#include "flotilla/nn/simd/neon.h"

#include "flotilla/domains/dvrp/oracle/kernel.h"

#define FLOTILLA_NEON  // not by the compiler's own macro: the portable kernel sees that as well

namespace flotilla::dvrp {
namespace neon {
namespace {

#include "flotilla/domains/dvrp/oracle/kernel_panels.h"

}  // namespace
}  // namespace neon

const OracleKernels kOracleNeon = neon::kernels_of("neon");

}  // namespace flotilla::dvrp
