#include <arm_neon.h>

#include "flotilla/nn/fused/kernel.h"

#define FLOTILLA_NEON  // not by the compiler's own macro: the portable kernel sees that as well

namespace flotilla::fused {
namespace neon {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 5, kBlockVectors = 4;

#include "flotilla/nn/fused/kernel_body.h"

}  // namespace
}  // namespace neon

const Kernels kNeon = {"neon",       neon::act,  neon::value,  neon::learn,
                       neon::reduce, neon::adam, neon::derive, neon::exp_all};

}  // namespace flotilla::fused
