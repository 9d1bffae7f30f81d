// The product of two matrices, with a block of sums in registers. Included by the kernels after
// simd.h.
//
// Every sum adds its products in the order of the inputs, whatever block it lies in: it is the same
// wherever a row or a column stands.
#pragma once

// Rows and vectors of columns of a block, so that its sums, a row of the right matrix and a number
// of the left one fill the CPU's registers.
#if defined(__AVX512F__)
constexpr int kRegisterRows = 6, kBlockVectors = 4;
#elif defined(__AVX2__)
constexpr int kRegisterRows = 6, kBlockVectors = 2;
#elif defined(__aarch64__) && defined(FLOTILLA_NEON)
constexpr int kRegisterRows = 5, kBlockVectors = 4;
#else
constexpr int kRegisterRows = 4, kBlockVectors = 2;
#endif

// Bits do not depend on it, but the time that a sanitizer's build takes does.
#if defined(FLOTILLA_SANITIZED)
constexpr int kBlockRows = 2;
#else
constexpr int kBlockRows = kRegisterRows;
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

// Left factors in a picture: row r begins at at[r], and its inputs are `runs` times `run` numbers,
// `step` from one to the next and `next` from one run to the next.
struct Windows {
  const float* data;
  const int32_t* at;
  int runs, run;
  long step, next;
};

// Where sums start: start(row, column) gives those of kLanes columns.
struct FromZero {
  FLOTILLA_INLINE V operator()(long, long) const { return V{}; }
};
struct FromBias {
  const float* bias;
  FLOTILLA_INLINE V operator()(long, long column) const { return load(bias + column); }
};
struct FromRows {
  const float* rows;  // null: zeros
  long width;
  FLOTILLA_INLINE V operator()(long row, long column) const {
    return rows == nullptr ? V{} : load(rows + row * width + column);
  }
};

// Where sums go that are stored as they are.
struct IntoRows {
  float* rows;
  long width;
  FLOTILLA_INLINE void operator()(long row, long column, V sum) const {
    store(rows + row * width + column, sum);
  }
};

// sum[r] += x(r) * a row of the right matrix
template <int kRows, int kVectors, class Factor>
FLOTILLA_INLINE void add_products(V (&sum)[kRows][kVectors], const float* right, Factor x) {
  V inputs[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) inputs[v] = load(right + v * kLanes);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const V factor = splat(x(r));
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(factor, inputs[v], sum[r][v]);
  }
}

template <int kRows, int kVectors>
FLOTILLA_INLINE void add_inputs(V (&sum)[kRows][kVectors], long row, int depth, Left left,
                                Right right) {
  const float* a = left.data + row * left.row;
  for (int k = 0; k < depth; ++k) {
    add_products(sum, right.data + k * right.input,
                 [&](int r) FLOTILLA_INLINE_LAMBDA { return a[r * left.row + k * left.input]; });
  }
}

template <int kRows, int kVectors>
FLOTILLA_INLINE void add_inputs(V (&sum)[kRows][kVectors], long row, int, Windows left,
                                Right right) {
  const float* a[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) a[r] = left.data + left.at[row + r];
  const float* b = right.data;
  for (int run = 0; run < left.runs; ++run) {
    long at = run * left.next;
    for (int k = 0; k < left.run; ++k) {
      add_products(sum, b, [&](int r) FLOTILLA_INLINE_LAMBDA { return a[r][at]; });
      at += left.step;
      b += right.input;
    }
  }
}

// `right` begins at `column`, as in all that product() is made of.
template <int kRows, int kVectors, class Factors, class Start, class End>
FLOTILLA_INLINE void block(long row, long column, int depth, Factors left, Right right, Start start,
                           End end) {
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = start(row + r, column + v * kLanes);
  }
  add_inputs(sum, row, depth, left, right);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) end(row + r, column + v * kLanes, sum[r][v]);
  }
}

// The rows from `row` on, of which there are at most kRows.
template <int kRows, int kVectors, class Factors, class Start, class End>
FLOTILLA_INLINE void last_block(int rows, long row, long column, int depth, Factors left,
                                Right right, Start start, End end) {
  if constexpr (kRows > 0) {
    if (rows - row == kRows) {
      block<kRows, kVectors>(row, column, depth, left, right, start, end);
    } else {
      last_block<kRows - 1, kVectors>(rows, row, column, depth, left, right, start, end);
    }
  }
}

// All rows of a strip of columns, which stays in the first cache while they pass by.
template <int kVectors, class Factors = Left, class Start, class End>
FLOTILLA_INLINE void strip(int rows, long column, int depth, Factors left, Right right, Start start,
                           End end) {
  long row = 0;
  for (; rows - row >= kBlockRows; row += kBlockRows) {
    block<kBlockRows, kVectors>(row, column, depth, left, right, start, end);
  }
  last_block<kBlockRows - 1, kVectors>(rows, row, column, depth, left, right, start, end);
}

// Calls each<vectors>(column) for strips that together are all columns, of which there is a
// multiple of kUnit.
template <int kUnit, class Each>
FLOTILLA_INLINE void in_strips(int columns, Each each) {
  long column = 0;
  const auto some = [&]<int kVectors>() FLOTILLA_INLINE_LAMBDA {
    each.template operator()<kVectors>(column);
    column += kVectors * kLanes;
  };
  while (columns - column >= kBlockVectors * kLanes) some.template operator()<kBlockVectors>();
  if constexpr (kUnit % (kBlockVectors * kLanes) != 0) {
    if (kBlockVectors > 3 && columns - column >= 3 * kLanes) some.template operator()<3>();
    if (kBlockVectors > 2 && columns - column >= 2 * kLanes) some.template operator()<2>();
    if (columns - column >= kLanes) some.template operator()<1>();
  }
}

// Calls end(row, column, sums) for every row and every kLanes of the columns, which are whole
// vectors: sums = start(row, column) + the sum over `depth` inputs of left * right. Fewer blocks
// are compiled where columns are known to be multiples of a larger unit.
template <int kUnit = kLanes, class Factors = Left, class Start, class End>
FLOTILLA_INLINE void product(int rows, int columns, int depth, Factors left, Right right,
                             Start start, End end) {
  in_strips<kUnit>(columns, [&]<int kVectors>(long column) FLOTILLA_INLINE_LAMBDA {
    strip<kVectors>(rows, column, depth, left, {right.data + column, right.input}, start, end);
  });
}
