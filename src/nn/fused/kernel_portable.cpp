#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {
namespace portable {
namespace {

#include "flotilla/nn/fused/simd.h"

constexpr int kBlockRows = 4, kBlockVectors = 2;

#include "flotilla/nn/fused/kernel_body.h"

}  // namespace
}  // namespace portable

const Kernels kPortable = {"portable",       portable::act,  portable::value,  portable::learn,
                           portable::reduce, portable::adam, portable::derive, portable::exp_all};

}  // namespace flotilla::fused
