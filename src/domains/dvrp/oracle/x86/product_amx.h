// Products of rows with a matrix on the tiles of AMX: bfloat16 times bfloat16, summed as floats.
// Included by the kernels as product_fma.h is.
#pragma once

typedef uint16_t In;  // a bfloat16
constexpr int kRowsAtOnce = 16, kWideRows = 128;
constexpr int kTileInputs = 32, kTileOutputs = 16;  // of a tile of weights
constexpr int kTileSize = kTileInputs * kTileOutputs;
static_assert(kLanes == kTileOutputs && kOracleWidth % kTileInputs == 0 &&
              kOracleHidden % kTileInputs == 0 && kTileInputs == 2 * kTileOutputs);

FLOTILLA_INLINE void put(In* to, V v) {
  const __m256bh narrow = _mm512_cvtneps_pbh((__m512)v);
  __builtin_memcpy(to, &narrow, sizeof(narrow));
}

struct TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights; all have 16 rows of 64 bytes. Not on the
// stack: of what the intrinsic reads, the compiler knows the first eight bytes only.
alignas(64) const TileShapes kTileShapes;

FLOTILLA_INLINE void begin_products() { _tile_loadconfig(&kTileShapes); }
// A thread without tiles in use is cheaper to switch.
FLOTILLA_INLINE void end_products() { _tile_release(); }

// In tiles: [outputs / 16][inputs / 32][16 pairs of inputs][16 outputs][2].
void pack_matrix(const float* rows, int outputs, int inputs, void* packed) {
  In* to = (In*)packed;
  float row[kTileOutputs];
  In narrow[kTileOutputs];
  for (int first = 0; first < outputs; first += kTileOutputs) {
    for (int k = 0; k < inputs; ++k) {
      for (int i = 0; i < kTileOutputs; ++i) row[i] = rows[(size_t)(first + i) * inputs + k];
      put(narrow, load(row));
      In* pair = to + (size_t)(k / 2) * 2 * kTileOutputs + k % 2;
      for (int i = 0; i < kTileOutputs; ++i) pair[2 * i] = narrow[i];
    }
    to += (size_t)inputs * kTileOutputs;
  }
}

// Calls store_sum for `count` rows of 16 columns that lie in `sums`.
template <class Store>
FLOTILLA_INLINE void hand_over(const float* sums, int row, int count, int column,
                               const Store& store_sum) {
  for (int r = 0; r < count; ++r) store_sum(row + r, column, load(sums + r * kTileOutputs));
}

// The intrinsics are opaque to the compiler, which must not keep what they read in registers.
FLOTILLA_INLINE void inputs_are_written() { __asm__ volatile("" ::: "memory"); }

// Calls store_sum(row, column, sums of 16 columns). 32 rows by 32 columns at a time, so that each
// tile that is loaded is used twice.
template <class Store>
FLOTILLA_INLINE void product(const In* x, int stride, int rows, const PackedMatrix& matrix,
                             const Store& store_sum) {
  constexpr int kTileBytes = 64;
  const In* weights = (const In*)matrix.weights;
  const int depth = matrix.inputs / kTileInputs;
  const size_t stride_bytes = (size_t)stride * sizeof(In);
  alignas(64) float sums[4][kRowsAtOnce * kTileOutputs];
  inputs_are_written();
  for (int column = 0; column < matrix.outputs; column += 2 * kTileOutputs) {
    const In* left = weights + (size_t)column * matrix.inputs;
    const In* right = left + (size_t)kTileOutputs * matrix.inputs;
    for (int row = 0; row < rows; row += 2 * kRowsAtOnce) {
      const In* upper = x + (size_t)row * stride;
      const In* lower = upper + (size_t)kRowsAtOnce * stride;
      const int count = rows - row;
      _tile_zero(0);
      _tile_zero(1);
      if (count > kRowsAtOnce) {
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < depth; ++k) {
          _tile_loadd(4, upper + k * kTileInputs, stride_bytes);
          _tile_loadd(6, left + k * kTileSize, kTileBytes);
          _tile_loadd(7, right + k * kTileSize, kTileBytes);
          _tile_loadd(5, lower + k * kTileInputs, stride_bytes);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(2, sums[2], kTileBytes);
        _tile_stored(3, sums[3], kTileBytes);
      } else {
        for (int k = 0; k < depth; ++k) {
          _tile_loadd(4, upper + k * kTileInputs, stride_bytes);
          _tile_loadd(6, left + k * kTileSize, kTileBytes);
          _tile_loadd(7, right + k * kTileSize, kTileBytes);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
        }
      }
      _tile_stored(0, sums[0], kTileBytes);
      _tile_stored(1, sums[1], kTileBytes);
      const int first = count < kRowsAtOnce ? count : kRowsAtOnce;
      hand_over(sums[0], row, first, column, store_sum);
      hand_over(sums[1], row, first, column + kTileOutputs, store_sum);
      if (count <= kRowsAtOnce) continue;
      const int second = count < 2 * kRowsAtOnce ? count - kRowsAtOnce : kRowsAtOnce;
      hand_over(sums[2], row + kRowsAtOnce, second, column, store_sum);
      hand_over(sums[3], row + kRowsAtOnce, second, column + kTileOutputs, store_sum);
    }
  }
}
