// Products of rows with a matrix, by multiply-adds of vectors. Included by the kernels before
// kernel_body.h, after simd.h, kBlockRows and kBlockVectors.
//
// What the kernels want of such a file: In, the numbers that products take, and put(), which makes
// them of sums; kRowsAtOnce, to a multiple of which rows of In must be readable; kWideRows, how
// many go through both products of the hidden layer together; pack_matrix(); and product(), between
// begin_products() and end_products().
#pragma once

typedef float In;
constexpr int kRowsAtOnce = 1;
constexpr int kWideRows = 8 * kBlockRows;
constexpr int kPanel = kBlockVectors * kLanes;
static_assert(kOracleWidth % kPanel == 0);

FLOTILLA_INLINE void put(In* to, V v) { store(to, v); }
FLOTILLA_INLINE void begin_products() {}
FLOTILLA_INLINE void end_products() {}

// In panels of kPanel outputs: [outputs / kPanel][inputs][kPanel].
void pack_matrix(const float* rows, int outputs, int inputs, void* packed) {
  float* to = (float*)packed;
  for (int first = 0; first < outputs; first += kPanel) {
    for (int k = 0; k < inputs; ++k) {
      for (int i = 0; i < kPanel; ++i) *to++ = rows[(size_t)(first + i) * inputs + k];
    }
  }
}

// Every output sums its products in the order of the inputs, whatever block it lies in.
template <int kRows, class Store>
FLOTILLA_INLINE void block(const In* x, int stride, const PackedMatrix& matrix, int panel, int row,
                           const Store& store_sum) {
  V sum[kRows][kBlockVectors] = {};
  const float* w = (const float*)matrix.weights + (size_t)panel * matrix.inputs * kPanel;
  x += (size_t)row * stride;
  for (int k = 0; k < matrix.inputs; ++k, w += kPanel) {
    V b[kBlockVectors];
    for (int v = 0; v < kBlockVectors; ++v) b[v] = load(w + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const V a = splat(x[(size_t)r * stride + k]);
      for (int v = 0; v < kBlockVectors; ++v) sum[r][v] = fma(a, b[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kBlockVectors; ++v) {
      store_sum(row + r, panel * kPanel + v * kLanes, sum[r][v]);
    }
  }
}

template <int kRows, class Store>
FLOTILLA_INLINE void last_block(int rows, const In* x, int stride, const PackedMatrix& matrix,
                                int panel, int row, const Store& store_sum) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return block<kRows>(x, stride, matrix, panel, row, store_sum);
    last_block<kRows - 1>(rows, x, stride, matrix, panel, row, store_sum);
  }
}

// Calls store_sum(row, column, sums of kLanes columns). A panel of weights stays in the first cache
// while all rows pass by.
template <class Store>
FLOTILLA_INLINE void product(const In* x, int stride, int rows, const PackedMatrix& matrix,
                             const Store& store_sum) {
  for (int panel = 0; panel < matrix.outputs / kPanel; ++panel) {
    int row = 0;
    for (; row + kBlockRows <= rows; row += kBlockRows) {
      block<kBlockRows>(x, stride, matrix, panel, row, store_sum);
    }
    last_block<kBlockRows - 1>(rows - row, x, stride, matrix, panel, row, store_sum);
  }
}
