// The product with a matrix that was packed in strips of columns, each of which lies in one piece:
// those of large matrices would otherwise share few lines of the first cache. Included by the
// kernels after product.h.
#pragma once

template <int kUnit>
struct Packed {
  static constexpr int kWidest = kBlockVectors * kLanes;

  static int width(int columns, int first) {
    return columns - first < kWidest ? columns - first : kWidest;
  }

  // Of [depth][columns], where rows lie `row` apart. All functions take columns from a first one
  // on, which begins a strip, so that several threads can pack a matrix.
  static void pack(const float* from, long depth, int columns, float* to) {
    pack(from, columns, depth, columns, to);
  }
  static void pack(const float* from, long row, long depth, int columns, float* to,
                   int first_column = 0) {
    to += first_column * depth;
    for (int first = first_column; first < columns; first += kWidest) {
      const int wide = width(columns, first);
      for (long k = 0; k < depth; ++k) {
        for (int i = 0; i < wide; i += kLanes) store(to + i, load(from + k * row + first + i));
        to += wide;
      }
    }
  }

  // Of its transpose, [columns][depth]. REQUIRES: whole vectors of either.
  static void pack_transposed(const float* from, int columns, long depth, float* to,
                              int first_column = 0) {
    to += first_column * depth;
    for (int first = first_column; first < columns; first += kWidest) {
      const int wide = width(columns, first);
      for (long k = 0; k < depth; k += kLanes) {
        for (int i = 0; i < wide; i += kLanes) {
          V t[kLanes];
          for (int j = 0; j < kLanes; ++j) t[j] = load(from + (first + i + j) * depth + k);
          transpose(t);
          for (int j = 0; j < kLanes; ++j) store(to + j * wide + i, t[j]);
        }
        to += kLanes * wide;
      }
    }
  }

  // As product().
  template <class Factors, class Start, class End>
  static FLOTILLA_INLINE void multiply(int rows, int columns, int depth, Factors left,
                                       const float* packed, Start start, End end) {
    in_strips<kUnit>(columns, [&]<int kVectors>(long column) FLOTILLA_INLINE_LAMBDA {
      strip<kVectors>(rows, column, depth, left, {packed + column * depth, kVectors * kLanes},
                      start, end);
    });
  }
};
