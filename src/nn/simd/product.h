// The product of two matrices, with a block of sums in registers. Included by the kernels after
// simd.h.
//
// Every sum adds its products in the order of the inputs, whatever block it lies in: it is the same
// wherever a row or a column stands.
#pragma once

// Rows and vectors of columns of a block, so that its sums, a row of the right matrix and a number
// of the left one fill the CPU's registers.
#if defined(__AVX512F__)
constexpr int kBlockRows = 6, kBlockVectors = 4;
#elif defined(__AVX2__)
constexpr int kBlockRows = 6, kBlockVectors = 2;
#elif defined(FLOTILLA_NEON)
constexpr int kBlockRows = 5, kBlockVectors = 4;
#else
constexpr int kBlockRows = 4, kBlockVectors = 2;
#endif

// Read one number at a time, so its rows and columns may be swapped by their strides.
struct Left {
  const float* data;
  long row, input;  // strides
};

// Read in whole vectors of columns.
struct Right {
  const float* data;
  long input;  // stride
};

// Where sums start: start(row, column) gives those of kLanes columns.
struct FromZero {
  FLOTILLA_INLINE V operator()(long, long) const { return V{}; }
};
struct FromBias {
  const float* bias;
  FLOTILLA_INLINE V operator()(long, long column) const { return load(bias + column); }
};

// `right` begins at `column`, as in all that product() is made of.
template <int kRows, int kVectors, class Start, class End>
FLOTILLA_INLINE void block(long row, long column, int depth, Left left, Right right, Start start,
                           End end) {
  const float* a = left.data + row * left.row;
  const float* b = right.data;
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = start(row + r, column + v * kLanes);
  }
  for (int k = 0; k < depth; ++k) {
    V inputs[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) inputs[v] = load(b + k * right.input + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V x = splat(a[r * left.row + k * left.input]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(x, inputs[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) end(row + r, column + v * kLanes, sum[r][v]);
  }
}

// The rows from `row` on, of which there are at most kRows.
template <int kRows, int kVectors, class Start, class End>
FLOTILLA_INLINE void last_block(int rows, long row, long column, int depth, Left left, Right right,
                                Start start, End end) {
  if constexpr (kRows > 0) {
    if (rows - row == kRows) {
      block<kRows, kVectors>(row, column, depth, left, right, start, end);
    } else {
      last_block<kRows - 1, kVectors>(rows, row, column, depth, left, right, start, end);
    }
  }
}

// All rows of a strip of columns, which stays in the first cache while they pass by.
template <int kVectors, class Start, class End>
FLOTILLA_INLINE void strip(int rows, long column, int depth, Left left, Right right, Start start,
                           End end) {
  long row = 0;
  for (; rows - row >= kBlockRows; row += kBlockRows) {
    block<kBlockRows, kVectors>(row, column, depth, left, right, start, end);
  }
  last_block<kBlockRows - 1, kVectors>(rows, row, column, depth, left, right, start, end);
}

// Calls end(row, column, sums) for every row and every kLanes of the columns, which are whole
// vectors: sums = start(row, column) + the sum over `depth` inputs of left * right.
template <class Start, class End>
FLOTILLA_INLINE void product(int rows, int columns, int depth, Left left, Right right, Start start,
                             End end) {
  long column = 0;
  const auto some = [&]<int kVectors>() FLOTILLA_INLINE_LAMBDA {
    strip<kVectors>(rows, column, depth, left, {right.data + column, right.input}, start, end);
    column += kVectors * kLanes;
  };
  while (columns - column >= kBlockVectors * kLanes) some.template operator()<kBlockVectors>();
  if (kBlockVectors > 3 && columns - column >= 3 * kLanes) some.template operator()<3>();
  if (kBlockVectors > 2 && columns - column >= 2 * kLanes) some.template operator()<2>();
  if (columns - column >= kLanes) some.template operator()<1>();
}
