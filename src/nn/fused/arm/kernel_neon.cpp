#include "flotilla/nn/simd/neon.h"

#include "flotilla/nn/fused/kernel.h"

#define FLOTILLA_NEON  // not by the compiler's own macro: the portable kernel sees that as well

namespace flotilla::fused {
namespace neon {
namespace {

// clang-format off
#include "flotilla/nn/fused/kernel_body.h"
#include "flotilla/nn/simd/rounded.h"
// clang-format on

}  // namespace
}  // namespace neon

const Kernels kNeon = neon::kernels_of<neon::Fp32Layers>("neon");
const Kernels kNeonBf16 = neon::kernels_of<neon::Bf16Layers<neon::Rounded>>("neon");

}  // namespace flotilla::fused
