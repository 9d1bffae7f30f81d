#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace portable {
namespace {

// clang-format off
#include "flotilla/nn/fused/kernel_body.h"
#include "flotilla/nn/simd/rounded.h"
// clang-format on

}  // namespace
}  // namespace portable

const Kernels kPortable = portable::kernels_of<portable::Fp32Layers>("portable");
const Kernels kPortableBf16 =
    portable::kernels_of<portable::Bf16Layers<portable::Rounded>>("portable");

}  // namespace flotilla::fused
