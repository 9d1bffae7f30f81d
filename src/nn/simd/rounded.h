// Products of rows with a packed matrix whose factors are rounded to bfloat16, summed as floats:
// what CPUs without instructions for it do instead. Included by the kernels as panels.h is.
#pragma once

struct Rounded {
  typedef float In;  // the last 16 bits are zero
  static constexpr int kRowsAtOnce = 1, kInputUnit = kLanes, kOutputUnit = kLanes;

  static FLOTILLA_INLINE void put(In* to, V v) { store(to, round_to_bf16(v)); }
  static FLOTILLA_INLINE V get(const In* from) { return load(from); }
  static FLOTILLA_INLINE void begin() {}
  static FLOTILLA_INLINE void end() {}

  // [outputs][inputs], as [inputs][outputs].
  static void pack(const float* rows, int outputs, int inputs, void* packed) {
    pack(rows, outputs, inputs, packed, 0, outputs);
  }
  // Of these outputs, those from `begin` to `end`.
  static void pack(const float* rows, int outputs, int inputs, void* packed, int begin, int end) {
    In* to = (In*)packed;
    for (int k = 0; k < inputs; k += kLanes) {
      for (int first = begin; first < end; first += kLanes) {
        V t[kLanes];
        for (int i = 0; i < kLanes; ++i) t[i] = load(rows + (size_t)(first + i) * inputs + k);
        transpose(t);
        for (int i = 0; i < kLanes; ++i) put(to + (size_t)(k + i) * outputs + first, t[i]);
      }
    }
  }

  // [rows][outputs], where rows up to `inputs` are missing and taken for zeros.
  static void pack_rows(const float* from, int rows, int inputs, int outputs, void* packed,
                        int begin, int end) {
    In* to = (In*)packed;
    for (int k = 0; k < inputs; ++k) {
      for (int i = begin; i < end; i += kLanes) {
        const size_t at = (size_t)k * outputs + i;
        put(to + at, k < rows ? load(from + at) : V{});
      }
    }
  }

  // Of In, and with none missing: those from `first` on.
  static void pack_inputs(const In* from, int inputs, int outputs, int first, int, void* packed) {
    __builtin_memcpy((In*)packed + (size_t)first * outputs, from,
                     (size_t)inputs * outputs * sizeof(In));
  }

  // As product().
  template <class Start, class End>
  static FLOTILLA_INLINE void multiply(const In* x, int stride, int rows,
                                       const simd::PackedMatrix& matrix, Start start, End end) {
    product(rows, matrix.outputs, matrix.inputs, {x, stride, 1},
            {(const In*)matrix.weights, matrix.outputs}, start, end);
  }
};
