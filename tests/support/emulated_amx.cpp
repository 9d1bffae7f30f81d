#include "support/emulated_amx.h"

#ifdef FLOTILLA_EMULATES_AMX

#include <immintrin.h>

// No templates of the standard library, as in all kernels: they would be for one CPU.

namespace flotilla::test {
namespace {

constexpr int kRows = 16, kRowBytes = 64;  // of a tile
struct EmulatedTile {
  unsigned char rows[kRows][kRowBytes] = {};
};
thread_local EmulatedTile tiles[8];

void copy_rows(void* to, size_t to_bytes, const void* from, size_t from_bytes) {
  auto* target = static_cast<unsigned char*>(to);
  const auto* source = static_cast<const unsigned char*>(from);
  for (int r = 0; r < kRows; ++r, target += to_bytes, source += from_bytes) {
    __builtin_memcpy(target, source, kRowBytes);
  }
}

// A pair of bfloat16, the first of them in the low half.
struct Pair {
  unsigned both;
  float even() const { return __builtin_bit_cast(float, both << 16); }
  float odd() const { return __builtin_bit_cast(float, both & 0xffff0000U); }
};

// sums += left * right: rows of pairs, and pairs of rows.
void multiply_tiles(EmulatedTile& sums, const EmulatedTile& left, const EmulatedTile& right) {
  Pair pairs[kRows][kRowBytes / 4], factors[kRowBytes / 4];
  __builtin_memcpy(pairs, right.rows, sizeof(pairs));
  for (int r = 0; r < kRows; ++r) {
    float sum[kRowBytes / 4];
    __builtin_memcpy(sum, sums.rows[r], kRowBytes);
    __builtin_memcpy(factors, left.rows[r], kRowBytes);
    for (int k = 0; k < kRows; ++k) {
      for (int c = 0; c < kRowBytes / 4; ++c) {
        sum[c] += factors[k].even() * pairs[k][c].even() + factors[k].odd() * pairs[k][c].odd();
      }
    }
    __builtin_memcpy(sums.rows[r], sum, kRowBytes);
  }
}

// To the nearest, of two equally near to the even one.
__m256bh to_bf16(__m512 numbers) {
  const __m512i bits = _mm512_castps_si512(numbers);
  const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff));
  return (__m256bh)_mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(bits, up), 16));
}

}  // namespace
}  // namespace flotilla::test

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(shapes) static_cast<void>(shapes)
#define _tile_release() static_cast<void>(0)
#define _tile_zero(tile) flotilla::test::tiles[tile] = {}
#define _tile_loadd(tile, from, bytes) \
  flotilla::test::copy_rows(flotilla::test::tiles[tile].rows, 64, from, bytes)
#define _tile_stored(tile, to, bytes) \
  flotilla::test::copy_rows(to, bytes, flotilla::test::tiles[tile].rows, 64)
#define _tile_dpbf16ps(sums, left, right)                                                  \
  flotilla::test::multiply_tiles(flotilla::test::tiles[sums], flotilla::test::tiles[left], \
                                 flotilla::test::tiles[right])
#define _mm512_cvtneps_pbh flotilla::test::to_bf16

namespace flotilla::fused {
namespace emulated {
namespace {

// clang-format off
#include "flotilla/nn/fused/kernel_body.h"
#include "flotilla/nn/simd/x86/tiles.h"
// clang-format on

}  // namespace
}  // namespace emulated
}  // namespace flotilla::fused

namespace flotilla::test {

const fused::Kernels* emulated_amx() {
  using namespace fused::emulated;
  static constexpr fused::Kernels kKernels = kernels_of<Bf16Layers<Tiles>>("avx512");
  return &kKernels;
}

}  // namespace flotilla::test

#else

namespace flotilla::test {
const fused::Kernels* emulated_amx() { return nullptr; }
}  // namespace flotilla::test

#endif
