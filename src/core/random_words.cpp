#include "core/random_words.h"

#include <algorithm>

#include "core/rng.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace flotilla {

#if defined(__SSE2__)

// Two blocks to a vector, each of their words in the low half of a 64-bit lane. The upper halves
// may hold anything: the multiplication does not read them.
void random_words(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words) {
  constexpr size_t kPairs = kWordsAtOnce / 8;  // two: all of it stays in registers
  const auto same = [](uint64_t value) { return _mm_set1_epi64x(static_cast<long long>(value)); };
  __m128i c0[kPairs], c1[kPairs], c2[kPairs], c3[kPairs];
  for (size_t p = 0; p < kPairs; ++p) {
    const uint64_t even = first_block + 2 * p, odd = even + 1;
    c0[p] = _mm_set_epi64x(static_cast<long long>(odd), static_cast<long long>(even));
    c1[p] = _mm_srli_epi64(c0[p], 32);
    c2[p] = same(stream);
    c3[p] = same(stream >> 32);
  }
  const __m128i multiplier0 = same(kPhiloxMultiplier0), multiplier1 = same(kPhiloxMultiplier1);
  PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const __m128i key0 = same(key[0]), key1 = same(key[1]);
    for (size_t p = 0; p < kPairs; ++p) {
      const __m128i product0 = _mm_mul_epu32(c0[p], multiplier0);
      const __m128i product1 = _mm_mul_epu32(c2[p], multiplier1);
      c0[p] = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(product1, 32), c1[p]), key0);
      c2[p] = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(product0, 32), c3[p]), key1);
      c1[p] = product1;
      c3[p] = product0;
    }
    next_round_key(key);
  }
  for (size_t p = 0; p < kPairs; ++p) {
    // Lanes (a, x) and (b, y) of two words become a b and, from the upper lanes, their like.
    const auto low_halves = [](__m128i v) { return _mm_shuffle_epi32(v, _MM_SHUFFLE(3, 1, 2, 0)); };
    const __m128i words01 = _mm_unpacklo_epi32(low_halves(c0[p]), low_halves(c1[p]));
    const __m128i words23 = _mm_unpacklo_epi32(low_halves(c2[p]), low_halves(c3[p]));
    auto* out = reinterpret_cast<__m128i*>(words + 8 * p);
    _mm_storeu_si128(out, _mm_unpacklo_epi64(words01, words23));
    _mm_storeu_si128(out + 1, _mm_unpackhi_epi64(words01, words23));
  }
}

#else

void random_words(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words) {
  for (size_t b = 0; b < kWordsAtOnce / 4; ++b) {
    std::ranges::copy(random_block(seed, stream, first_block + b), words + 4 * b);
  }
}

#endif

}  // namespace flotilla
