#include "flotilla/domains/dvrp/oracle/kernel.h"

namespace flotilla::dvrp {
namespace portable {
namespace {

#include "flotilla/domains/dvrp/oracle/kernel_panels.h"

}  // namespace
}  // namespace portable

const OracleKernels kOraclePortable = portable::kernels_of("portable");

}  // namespace flotilla::dvrp
