#include <immintrin.h>

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace avx512 {
namespace {

// clang-format off
#include "flotilla/nn/fused/kernel_body.h"
#include "flotilla/nn/simd/rounded.h"
// clang-format on

}  // namespace
}  // namespace avx512

const Kernels kAvx512 = avx512::kernels_of<avx512::Fp32Layers>("avx512");
const Kernels kAvx512Bf16 = avx512::kernels_of<avx512::Bf16Layers<avx512::Rounded>>("avx512");

}  // namespace flotilla::fused
