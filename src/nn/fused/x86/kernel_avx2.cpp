#include <immintrin.h>

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace avx2 {
namespace {

// clang-format off
#include "flotilla/nn/fused/kernel_body.h"
#include "flotilla/nn/simd/rounded.h"
// clang-format on

}  // namespace
}  // namespace avx2

const Kernels kAvx2 = avx2::kernels_of<avx2::Fp32Layers>("avx2");
const Kernels kAvx2Bf16 = avx2::kernels_of<avx2::Bf16Layers<avx2::Rounded>>("avx2");

}  // namespace flotilla::fused
