#include <immintrin.h>

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace avx2 {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 6, kBlockVectors = 2;

#include "flotilla/nn/fused/kernel_body.h"

}  // namespace
}  // namespace avx2

const Kernels kAvx2 = {"avx2",       avx2::act,  avx2::value,  avx2::learn,
                       avx2::reduce, avx2::adam, avx2::derive, avx2::exp_all};

}  // namespace flotilla::fused
