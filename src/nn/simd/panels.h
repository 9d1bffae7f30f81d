// Products of rows with a packed matrix, by multiply-adds of vectors. Included by the kernels after
// product.h.
//
// What kernels that take other products in its place want of such a struct: In, the numbers that
// products take, and put(), which makes them of sums; kRowsAtOnce, to a multiple of which rows of
// In must be readable; kInputUnit and kOutputUnit, of which a matrix has multiples; pack(); and
// multiply(), between begin() and end().
#pragma once

struct Panels {
  typedef float In;
  static constexpr int kPanel = kBlockVectors * kLanes;
  static constexpr int kRowsAtOnce = 1, kInputUnit = 1, kOutputUnit = kPanel;

  static FLOTILLA_INLINE void put(In* to, V v) { store(to, v); }
  static FLOTILLA_INLINE void begin() {}
  static FLOTILLA_INLINE void end() {}

  // [outputs][inputs], in panels: [outputs / kPanel][inputs][kPanel].
  static void pack(const float* rows, int outputs, int inputs, void* packed) {
    float* to = (float*)packed;
    for (int first = 0; first < outputs; first += kPanel) {
      for (int k = 0; k < inputs; ++k) {
        for (int i = 0; i < kPanel; ++i) *to++ = rows[(size_t)(first + i) * inputs + k];
      }
    }
  }

  // As product().
  template <class Start, class End>
  static FLOTILLA_INLINE void multiply(const In* x, int stride, int rows,
                                       const simd::PackedMatrix& matrix, Start start, End end) {
    for (int column = 0; column < matrix.outputs; column += kPanel) {
      const float* panel = (const float*)matrix.weights + (size_t)column * matrix.inputs;
      strip<kBlockVectors>(rows, column, matrix.inputs, {x, stride, 1}, {panel, kPanel}, start,
                           end);
    }
  }
};
