// Functions of whole arrays, with the widest vectors the CPU has.
#pragma once

namespace flotilla {

// out[i] = e^x[i]; exactly 1 for 0. Error below 2 ulp; arguments below -87 or above 88 are
// taken as those.
void vector_exp(const float* x, float* out, int count);

}  // namespace flotilla
