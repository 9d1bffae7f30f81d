// Products of rows with a packed matrix on the tiles of AMX: bfloat16 times bfloat16, summed as
// floats, in an order that is the same for every row. Included by the kernels as panels.h is.
#pragma once

struct TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights; all have 16 rows of 64 bytes. Not on the
// stack: of what the intrinsic reads, the compiler knows the first eight bytes only.
alignas(64) const TileShapes kTileShapes;

// The intrinsics want their tiles by name.
template <int kTile>
FLOTILLA_INLINE void clear_tile() {
  if constexpr (kTile == 0) _tile_zero(0);
  if constexpr (kTile == 1) _tile_zero(1);
  if constexpr (kTile == 2) _tile_zero(2);
  if constexpr (kTile == 3) _tile_zero(3);
}
template <int kTile>
FLOTILLA_INLINE void load_tile(const float* from, size_t row_bytes) {
  if constexpr (kTile == 0) _tile_loadd(0, from, row_bytes);
  if constexpr (kTile == 1) _tile_loadd(1, from, row_bytes);
  if constexpr (kTile == 2) _tile_loadd(2, from, row_bytes);
  if constexpr (kTile == 3) _tile_loadd(3, from, row_bytes);
}
template <int kTile>
FLOTILLA_INLINE void store_tile(float* to, size_t row_bytes) {
  if constexpr (kTile == 0) _tile_stored(0, to, row_bytes);
  if constexpr (kTile == 1) _tile_stored(1, to, row_bytes);
  if constexpr (kTile == 2) _tile_stored(2, to, row_bytes);
  if constexpr (kTile == 3) _tile_stored(3, to, row_bytes);
}

struct Tiles {
  typedef uint16_t In;  // a bfloat16
  static constexpr int kRowsAtOnce = 16, kInputUnit = 32, kOutputUnit = 32;
  static constexpr int kInputs = 32, kOutputs = 16;  // of a tile of weights
  static_assert(kLanes == kOutputs && kInputs == 2 * kOutputs);

  static FLOTILLA_INLINE void put(In* to, V v) {
    const __m256bh narrow = _mm512_cvtneps_pbh((__m512)v);
    __builtin_memcpy(to, &narrow, sizeof(narrow));
  }

  static FLOTILLA_INLINE V get(const In* from) {
    return (V)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from)),
                                16);
  }

  static FLOTILLA_INLINE void begin() { _tile_loadconfig(&kTileShapes); }
  // A thread without tiles in use is cheaper to switch.
  static FLOTILLA_INLINE void end() { _tile_release(); }

  // Two inputs of 16 outputs.
  static FLOTILLA_INLINE void put_pairs(In* to, V even, V odd) {
    const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)even));
    const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)odd));
    _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }

  // [outputs][inputs], in tiles: [outputs / 16][inputs / 32][16 pairs of inputs][16 outputs][2].
  static void pack(const float* rows, int outputs, int inputs, void* packed) {
    pack(rows, outputs, inputs, packed, 0, outputs);
  }
  // Of these outputs, those from `begin` to `end`.
  static void pack(const float* rows, int, int inputs, void* packed, int begin, int end) {
    In* to = (In*)packed + (size_t)begin * inputs;
    for (int first = begin; first < end; first += kOutputs) {
      for (int k = 0; k < inputs; k += kLanes) {
        V t[kLanes];
        for (int i = 0; i < kLanes; ++i) t[i] = load(rows + (size_t)(first + i) * inputs + k);
        transpose(t);
        for (int i = 0; i < kLanes; i += 2, to += 2 * kOutputs) put_pairs(to, t[i], t[i + 1]);
      }
    }
  }

  // The same of [rows][outputs], where rows up to `inputs` are missing and taken for zeros.
  static void pack_rows(const float* from, int rows, int inputs, int outputs, void* packed,
                        int begin, int end) {
    In* to = (In*)packed + (size_t)begin * inputs;
    const auto row = [&](int k, int column) FLOTILLA_INLINE_LAMBDA {
      return k < rows ? load(from + (size_t)k * outputs + column) : V{};
    };
    for (int column = begin; column < end; column += kOutputs) {
      for (int k = 0; k < inputs; k += 2, to += 2 * kOutputs) {
        put_pairs(to, row(k, column), row(k + 1, column));
      }
    }
  }

  // Of In, and with none missing: those from `first` on of `all` inputs.
  static void pack_inputs(const In* from, int inputs, int outputs, int first, int all,
                          void* packed) {
    const auto row = [&](int k, int column) FLOTILLA_INLINE_LAMBDA {
      return _mm512_cvtepu16_epi32(
          _mm256_loadu_si256((const __m256i*)(from + (size_t)k * outputs + column)));
    };
    for (int column = 0; column < outputs; column += kOutputs) {
      In* to = (In*)packed + (size_t)column * all + (size_t)first * kOutputs;
      for (int k = 0; k < inputs; k += 2, to += 2 * kOutputs) {
        const __m512i odd = _mm512_slli_epi32(row(k + 1, column), 16);
        _mm512_storeu_si512(to, _mm512_or_si512(row(k, column), odd));
      }
    }
  }

  // The intrinsics are opaque to the compiler, which must not keep what they read in registers.
  static FLOTILLA_INLINE void inputs_are_written() { __asm__ volatile("" ::: "memory"); }

  // As product(), 32 rows by 32 columns at a time, so that each tile that is loaded is used twice.
  template <class Start, class End>
  static FLOTILLA_INLINE void multiply(const In* x, int stride, int rows,
                                       const simd::PackedMatrix& matrix, Start start, End end) {
    const In* weights = (const In*)matrix.weights;
    inputs_are_written();
    for (int column = 0; column < matrix.outputs; column += 2 * kOutputs) {
      const In* left = weights + (size_t)column * matrix.inputs;
      int row = 0;
      for (; rows - row > kRowsAtOnce; row += 2 * kRowsAtOnce) {
        const int lower = rows - row - kRowsAtOnce;
        multiply_two(x + (size_t)row * stride, stride, left, matrix.inputs, row,
                     lower < kRowsAtOnce ? lower : kRowsAtOnce, column, start, end);
      }
      if (row < rows) {
        multiply_one(x + (size_t)row * stride, stride, left, matrix.inputs, row, rows - row, column,
                     start, end);
      }
    }
  }

 private:
  static constexpr int kTileBytes = 64;  // from row to row

  // A block of `count` sums from (row, column) on, in a tile. Those that are the rows of a matrix
  // go between it and the tile; `staged` is for all others.
  template <int kTile, class Start>
  static FLOTILLA_INLINE void begin_sums(float* staged, int row, int count, int column,
                                         Start start) {
    if constexpr (__is_same(Start, FromZero)) {
      clear_tile<kTile>();
    } else if constexpr (__is_same(Start, FromBias)) {
      load_tile<kTile>(start.bias + column, 0);
    } else {
      if constexpr (__is_same(Start, FromRows)) {
        if (start.rows == nullptr) return clear_tile<kTile>();
        if (count == kRowsAtOnce) {
          return load_tile<kTile>(start.rows + row * start.width + column,
                                  (size_t)start.width * sizeof(float));
        }
      }
      for (int r = 0; r < count; ++r) store(staged + r * kOutputs, start(row + r, column));
      inputs_are_written();
      load_tile<kTile>(staged, kTileBytes);
    }
  }

  template <int kTile, class End>
  static FLOTILLA_INLINE void end_sums(float* staged, int row, int count, int column, End end) {
    if constexpr (__is_same(End, IntoRows)) {
      if (count == kRowsAtOnce) {
        return store_tile<kTile>(end.rows + row * end.width + column,
                                 (size_t)end.width * sizeof(float));
      }
    }
    store_tile<kTile>(staged, kTileBytes);
    for (int r = 0; r < count; ++r) end(row + r, column, load(staged + r * kOutputs));
  }

  // 16 rows and `lower` more by 32 columns.
  template <class Start, class End>
  static FLOTILLA_INLINE void multiply_two(const In* upper, int stride, const In* left, int inputs,
                                           int row, int lower, int column, Start start, End end) {
    const In* right = left + (size_t)kOutputs * inputs;
    const In* below = upper + (size_t)kRowsAtOnce * stride;
    const size_t stride_bytes = (size_t)stride * sizeof(In);
    const int next = column + kOutputs, lower_row = row + kRowsAtOnce;
    alignas(64) float staged[4][kRowsAtOnce * kOutputs];
    begin_sums<0>(staged[0], row, kRowsAtOnce, column, start);
    begin_sums<1>(staged[1], row, kRowsAtOnce, next, start);
    begin_sums<2>(staged[2], lower_row, lower, column, start);
    begin_sums<3>(staged[3], lower_row, lower, next, start);
    for (int k = 0; k < inputs; k += kInputs) {
      _tile_loadd(4, upper + k, stride_bytes);
      _tile_loadd(6, left + k * kOutputs, kTileBytes);
      _tile_loadd(7, right + k * kOutputs, kTileBytes);
      _tile_loadd(5, below + k, stride_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    end_sums<0>(staged[0], row, kRowsAtOnce, column, end);
    end_sums<1>(staged[1], row, kRowsAtOnce, next, end);
    end_sums<2>(staged[2], lower_row, lower, column, end);
    end_sums<3>(staged[3], lower_row, lower, next, end);
  }

  // `count` rows, at most 16, by 32 columns.
  template <class Start, class End>
  static FLOTILLA_INLINE void multiply_one(const In* x, int stride, const In* left, int inputs,
                                           int row, int count, int column, Start start, End end) {
    const In* right = left + (size_t)kOutputs * inputs;
    const size_t stride_bytes = (size_t)stride * sizeof(In);
    alignas(64) float staged[2][kRowsAtOnce * kOutputs];
    begin_sums<0>(staged[0], row, count, column, start);
    begin_sums<1>(staged[1], row, count, column + kOutputs, start);
    for (int k = 0; k < inputs; k += kInputs) {
      _tile_loadd(4, x + k, stride_bytes);
      _tile_loadd(6, left + k * kOutputs, kTileBytes);
      _tile_loadd(7, right + k * kOutputs, kTileBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
    }
    end_sums<0>(staged[0], row, count, column, end);
    end_sums<1>(staged[1], row, count, column + kOutputs, end);
  }
};
