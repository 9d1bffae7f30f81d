#include <immintrin.h>

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace amx {
namespace {

// clang-format off
#include "flotilla/nn/fused/kernel_body.h"
#include "flotilla/nn/simd/x86/tiles.h"
// clang-format on

}  // namespace
}  // namespace amx

const Kernels kAmxBf16 = amx::kernels_of<amx::Bf16Layers<amx::Tiles>>("amx");

}  // namespace flotilla::fused
