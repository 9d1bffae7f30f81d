// What stands between the convolutions of a residual network on a GPU, in one pass each. libtorch
// makes two or three, and its pools take a quarter of the time of such a network.
//
// Pictures lie with their channels innermost. Rounding is libtorch's: every sum is rounded, of
// equal numbers a pool passes the first one on, and gradients are added up in the order of its
// windows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace flotilla::torch_nn {

enum class Number : uint8_t { kFloat, kBf16 };

struct Pictures {
  int64_t count = 0;
  int rows = 0, columns = 0, channels = 0;
  Number number = Number::kFloat;

  // Channels are a multiple of it: neighbours that a thread takes at once.
  static constexpr int kVector = 8;
};

// Of max_pool2d(3, stride 2, padding 1).
constexpr int pooled(int length) { return (length - 1) / 2 + 1; }

// out = max_pool2d(x + bias). `passed`: which of the nine a window passes on.
void add_and_pool(const Pictures& shape, const void* x, const void* bias, void* out,
                  uint8_t* passed, cudaStream_t stream);
// d_x of the pool; `shape` is that of x.
void pool_back(const Pictures& shape, const void* d_out, const uint8_t* passed, void* d_x,
               cudaStream_t stream);

// out = relu(x + bias), and out = (x + bias) + skip.
void add_and_relu(const Pictures& shape, const void* x, const void* bias, void* out,
                  cudaStream_t stream);
void add_and_join(const Pictures& shape, const void* x, const void* bias, const void* skip,
                  void* out, cudaStream_t stream);

}  // namespace flotilla::torch_nn
