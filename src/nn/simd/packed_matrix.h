// A matrix that many rows are multiplied with, in the order in which the products of a CPU read it.
//
// A plain struct: the kernels share no templates of the standard library with the rest of the
// program.
#pragma once

namespace flotilla::simd {

struct PackedMatrix {
  int inputs = 0, outputs = 0;
  const void* weights = nullptr;
};

}  // namespace flotilla::simd
