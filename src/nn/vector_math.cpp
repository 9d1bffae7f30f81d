#include "flotilla/nn/vector_math.h"

#include "flotilla/nn/fused/kernel_choice.h"

namespace flotilla {

void vector_exp(const float* x, float* out, int count) { fused::kernels().exp(x, out, count); }

}  // namespace flotilla
