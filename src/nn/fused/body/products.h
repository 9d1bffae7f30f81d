// Products of matrices, with a block of sums in registers.
// Part of kernel_body.h.
#pragma once

// C[R][N] = start + sum over k of A(r, k) * B[k][N], with N vectors of columns. A is read one
// number at a time, so its rows and columns may be swapped by their strides. The accumulators
// stay in registers: 6 x 4 of 32.
template <int R, int N, class Start, class End>
FLOTILLA_INLINE void block(const float* a, long a_row, long a_k, const float* b, long b_k,
                           int depth, Start start, End end) {
  V sum[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sum[r][n] = start(r, n);
  }
  for (int k = 0; k < depth; ++k) {
    V column[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) column[n] = load(b + k * b_k + n * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const V x = splat(a[r * a_row + k * a_k]);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[r][n] = fma(x, column[n], sum[r][n]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) end(r, n, sum[r][n]);
  }
}

// All rows of one strip of N vectors of columns. start(row, n) and end(row, n, sum) take the row
// in the whole matrix.
template <int N, class Start, class End>
FLOTILLA_INLINE void strip(int rows, const float* a, long a_row, long a_k, const float* b, long b_k,
                           int depth, Start start, End end) {
  int row = 0;
  const auto some = [&]<int R>() FLOTILLA_INLINE_LAMBDA {
    block<R, N>(
        a + row * a_row, a_row, a_k, b, b_k, depth,
        [&](int r, int n) FLOTILLA_INLINE_LAMBDA { return start(row + r, n); },
        [&](int r, int n, V sum) FLOTILLA_INLINE_LAMBDA { end(row + r, n, sum); });
    row += R;
  };
  while (rows - row >= kBlockRows) some.template operator()<kBlockRows>();
  if (rows - row >= 4) some.template operator()<4>();
  if (rows - row >= 2) some.template operator()<2>();
  if (rows - row >= 1) some.template operator()<1>();
}

// Calls strip for every strip of `columns`; at(column) gives start and end of the strip.
template <class At>
FLOTILLA_INLINE void product(int rows, int columns, const float* a, long a_row, long a_k,
                             const float* b, long b_k, int depth, At at) {
  int column = 0;
  const auto some = [&]<int N>() FLOTILLA_INLINE_LAMBDA {
    const auto ends = at(column);
    strip<N>(rows, a, a_row, a_k, b + column, b_k, depth, ends.start, ends.end);
    column += N * kLanes;
  };
  while (columns - column >= kBlockVectors * kLanes) some.template operator()<kBlockVectors>();
  if (kBlockVectors > 3 && columns - column >= 3 * kLanes) some.template operator()<3>();
  if (kBlockVectors > 2 && columns - column >= 2 * kLanes) some.template operator()<2>();
  if (columns - column >= kLanes) some.template operator()<1>();
}

template <class Start, class End>
struct Ends {
  Start start;
  End end;
};
template <class Start, class End>
Ends(Start, End) -> Ends<Start, End>;
