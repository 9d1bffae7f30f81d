#include <immintrin.h>

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace avx512 {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 6, kBlockVectors = 4;

#include "flotilla/nn/fused/kernel_body.h"

}  // namespace
}  // namespace avx512

const Kernels kAvx512 = {"avx512",       avx512::act,  avx512::value,  avx512::learn,
                         avx512::reduce, avx512::adam, avx512::derive, avx512::exp_all};

}  // namespace flotilla::fused
