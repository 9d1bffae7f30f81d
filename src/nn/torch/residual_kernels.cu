#include <cuda_bf16.h>

#include <algorithm>

#include "flotilla/nn/torch/residual_kernels.h"

namespace flotilla::torch_nn {
namespace {

constexpr int kThreads = 256, kVector = Pictures::kVector;

template <class T>
struct alignas(sizeof(T) * kVector) Vector {
  T values[kVector];
};
template <class T>
__device__ Vector<T> load(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <class T>
__device__ void store(T* to, const Vector<T>& vector) {
  *reinterpret_cast<Vector<T>*>(to) = vector;
}

__device__ float wide(float x) { return x; }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T narrow(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return __float2bfloat16_rn(x);
  }
}

// What a thread works on in each picture: some channels of a place.
struct Place {
  int row, column, channel;
};
__device__ Place place_of(int index, int columns, int channels) {
  const int vectors = channels / kVector, pixel = index / vectors;
  return {pixel / columns, pixel % columns, index % vectors * kVector};
}

template <class T>
__global__ void pool_kernel(Pictures shape, const T* x, const T* bias, T* out, uint8_t* passed) {
  const int columns_out = pooled(shape.columns);
  const int size = shape.rows * shape.columns * shape.channels;
  const int size_out = pooled(shape.rows) * columns_out * shape.channels;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (index * kVector >= size_out) return;
  const Place at = place_of(index, columns_out, shape.channels);
  float added[kVector];
  for (int k = 0; k < kVector; ++k) added[k] = wide(bias[at.channel + k]);
  for (int64_t picture = blockIdx.y; picture < shape.count; picture += gridDim.y) {
    Vector<T> best;
    Vector<uint8_t> first;
    bool any = false;
    for (int tap = 0; tap < 9; ++tap) {
      const int row = 2 * at.row - 1 + tap / 3, column = 2 * at.column - 1 + tap % 3;
      if (row < 0 || row >= shape.rows || column < 0 || column >= shape.columns) continue;
      const int from = (row * shape.columns + column) * shape.channels + at.channel;
      const Vector<T> seen = load(x + picture * size + from);
      for (int k = 0; k < kVector; ++k) {
        const T sum = narrow<T>(wide(seen.values[k]) + added[k]);
        if (!any || wide(sum) > wide(best.values[k]) || isnan(wide(sum))) {
          best.values[k] = sum;
          first.values[k] = static_cast<uint8_t>(tap);
        }
      }
      any = true;
    }
    const int64_t to = picture * size_out + index * kVector;
    store(out + to, best);
    store(passed + to, first);
  }
}

// A number is in up to four windows.
template <class T>
__global__ void pool_back_kernel(Pictures shape, const T* d_out, const uint8_t* passed, T* d_x) {
  const int rows_out = pooled(shape.rows), columns_out = pooled(shape.columns);
  const int size = shape.rows * shape.columns * shape.channels;
  const int size_out = rows_out * columns_out * shape.channels;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (index * kVector >= size) return;
  const Place at = place_of(index, shape.columns, shape.channels);
  for (int64_t picture = blockIdx.y; picture < shape.count; picture += gridDim.y) {
    float sum[kVector] = {};
    for (int row = at.row / 2; row <= (at.row + 1) / 2 && row < rows_out; ++row) {
      for (int column = at.column / 2; column <= (at.column + 1) / 2 && column < columns_out;
           ++column) {
        const int tap = (at.row - 2 * row + 1) * 3 + at.column - 2 * column + 1;
        const int64_t from =
            picture * size_out + (row * columns_out + column) * shape.channels + at.channel;
        const Vector<T> slopes = load(d_out + from);
        const Vector<uint8_t> which = load(passed + from);
        for (int k = 0; k < kVector; ++k) {
          if (which.values[k] == tap) sum[k] += wide(slopes.values[k]);
        }
      }
    }
    Vector<T> result;
    for (int k = 0; k < kVector; ++k) result.values[k] = narrow<T>(sum[k]);
    store(d_x + picture * size + index * kVector, result);
  }
}

// With a skip to what it joins, else to relu.
template <class T>
__global__ void add_kernel(Pictures shape, const T* x, const T* bias, const T* skip, T* out) {
  const int size = shape.rows * shape.columns * shape.channels;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  if (index * kVector >= size) return;
  const int channel = index % (shape.channels / kVector) * kVector;
  float added[kVector];
  for (int k = 0; k < kVector; ++k) added[k] = wide(bias[channel + k]);
  for (int64_t picture = blockIdx.y; picture < shape.count; picture += gridDim.y) {
    const int64_t at = picture * size + index * kVector;
    const Vector<T> seen = load(x + at);
    Vector<T> other, result;
    if (skip != nullptr) other = load(skip + at);
    for (int k = 0; k < kVector; ++k) {
      const T sum = narrow<T>(wide(seen.values[k]) + added[k]);
      if (skip != nullptr) {
        result.values[k] = narrow<T>(wide(other.values[k]) + wide(sum));
      } else {
        result.values[k] = wide(sum) < 0 ? narrow<T>(0) : sum;  // NaN stays NaN
      }
    }
    store(out + at, result);
  }
}

// So many numbers of each picture; pictures side by side.
dim3 grid(const Pictures& shape, int numbers) {
  const int per_block = kThreads * kVector;
  return {static_cast<unsigned>((numbers + per_block - 1) / per_block),
          static_cast<unsigned>(std::min<int64_t>(shape.count, 65535))};
}

template <class T>
void start_pool(const Pictures& shape, const void* x, const void* bias, void* out, uint8_t* passed,
                cudaStream_t stream) {
  const dim3 blocks = grid(shape, pooled(shape.rows) * pooled(shape.columns) * shape.channels);
  pool_kernel<T><<<blocks, kThreads, 0, stream>>>(
      shape, static_cast<const T*>(x), static_cast<const T*>(bias), static_cast<T*>(out), passed);
}

template <class T>
void start_pool_back(const Pictures& shape, const void* d_out, const uint8_t* passed, void* d_x,
                     cudaStream_t stream) {
  const dim3 blocks = grid(shape, shape.rows * shape.columns * shape.channels);
  pool_back_kernel<T><<<blocks, kThreads, 0, stream>>>(shape, static_cast<const T*>(d_out), passed,
                                                       static_cast<T*>(d_x));
}

template <class T>
void start_add(const Pictures& shape, const void* x, const void* bias, const void* skip, void* out,
               cudaStream_t stream) {
  const dim3 blocks = grid(shape, shape.rows * shape.columns * shape.channels);
  add_kernel<T><<<blocks, kThreads, 0, stream>>>(shape, static_cast<const T*>(x),
                                                 static_cast<const T*>(bias),
                                                 static_cast<const T*>(skip), static_cast<T*>(out));
}

}  // namespace

void add_and_pool(const Pictures& shape, const void* x, const void* bias, void* out,
                  uint8_t* passed, cudaStream_t stream) {
  const auto start = shape.number == Number::kBf16 ? start_pool<__nv_bfloat16> : start_pool<float>;
  start(shape, x, bias, out, passed, stream);
}

void pool_back(const Pictures& shape, const void* d_out, const uint8_t* passed, void* d_x,
               cudaStream_t stream) {
  const auto start =
      shape.number == Number::kBf16 ? start_pool_back<__nv_bfloat16> : start_pool_back<float>;
  start(shape, d_out, passed, d_x, stream);
}

void add_and_join(const Pictures& shape, const void* x, const void* bias, const void* skip,
                  void* out, cudaStream_t stream) {
  const auto start = shape.number == Number::kBf16 ? start_add<__nv_bfloat16> : start_add<float>;
  start(shape, x, bias, skip, out, stream);
}

void add_and_relu(const Pictures& shape, const void* x, const void* bias, void* out,
                  cudaStream_t stream) {
  add_and_join(shape, x, bias, nullptr, out, stream);
}

}  // namespace flotilla::torch_nn
