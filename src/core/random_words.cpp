#include "flotilla/core/random_words.h"

#include <algorithm>

#include "flotilla/core/rng.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flotilla {

#if defined(__x86_64__)
namespace {

// Each word of a block lies in the low half of a 64-bit lane. The upper halves may hold anything:
// the multiplication does not read them.

// Two blocks to a vector, two vectors: 16 words.
void words_sse2(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words) {
  constexpr size_t kVectors = 2;
  const auto same = [](uint64_t value) { return _mm_set1_epi64x(static_cast<long long>(value)); };
  __m128i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    const uint64_t block = first_block + 2 * v;
    c0[v] = _mm_set_epi64x(static_cast<long long>(block + 1), static_cast<long long>(block));
    c1[v] = _mm_srli_epi64(c0[v], 32);
    c2[v] = same(stream);
    c3[v] = same(stream >> 32);
  }
  const __m128i multiplier0 = same(kPhiloxMultiplier0), multiplier1 = same(kPhiloxMultiplier1);
  PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const __m128i key0 = same(key[0]), key1 = same(key[1]);
    for (size_t v = 0; v < kVectors; ++v) {
      const __m128i product0 = _mm_mul_epu32(c0[v], multiplier0);
      const __m128i product1 = _mm_mul_epu32(c2[v], multiplier1);
      c0[v] = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(product1, 32), c1[v]), key0);
      c2[v] = _mm_xor_si128(_mm_xor_si128(_mm_srli_epi64(product0, 32), c3[v]), key1);
      c1[v] = product1;
      c3[v] = product0;
    }
    next_round_key(key);
  }
  for (size_t v = 0; v < kVectors; ++v) {
    // Lanes (a, x) and (b, y) of two words become a b and, from the upper lanes, their like.
    const auto low_halves = [](__m128i w) { return _mm_shuffle_epi32(w, _MM_SHUFFLE(3, 1, 2, 0)); };
    const __m128i words01 = _mm_unpacklo_epi32(low_halves(c0[v]), low_halves(c1[v]));
    const __m128i words23 = _mm_unpacklo_epi32(low_halves(c2[v]), low_halves(c3[v]));
    auto* out = reinterpret_cast<__m128i*>(words + 8 * v);
    _mm_storeu_si128(out, _mm_unpacklo_epi64(words01, words23));
    _mm_storeu_si128(out + 1, _mm_unpackhi_epi64(words01, words23));
  }
}

// The same with four blocks to a vector: 32 words.
__attribute__((target("avx2"))) void words_avx2(uint64_t seed, uint64_t stream,
                                                uint64_t first_block, uint32_t* words) {
  constexpr size_t kVectors = 2;
  __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    const __m256i block = _mm256_set1_epi64x(static_cast<long long>(first_block + 4 * v));
    c0[v] = _mm256_add_epi64(block, _mm256_set_epi64x(3, 2, 1, 0));
    c1[v] = _mm256_srli_epi64(c0[v], 32);
    c2[v] = _mm256_set1_epi64x(static_cast<long long>(stream));
    c3[v] = _mm256_set1_epi64x(static_cast<long long>(stream >> 32));
  }
  const __m256i multiplier0 = _mm256_set1_epi64x(kPhiloxMultiplier0);
  const __m256i multiplier1 = _mm256_set1_epi64x(kPhiloxMultiplier1);
  PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const __m256i key0 = _mm256_set1_epi64x(key[0]), key1 = _mm256_set1_epi64x(key[1]);
    for (size_t v = 0; v < kVectors; ++v) {
      const __m256i product0 = _mm256_mul_epu32(c0[v], multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2[v], multiplier1);
      c0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1[v]), key0);
      c2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3[v]), key1);
      c1[v] = product1;
      c3[v] = product0;
    }
    next_round_key(key);
  }
  const __m256i low = _mm256_set1_epi64x(0xFFFFFFFF);
  for (size_t v = 0; v < kVectors; ++v) {
    // Words 0 and 1 of a block into one lane, words 2 and 3 into another; then side by side.
    const __m256i words01 =
        _mm256_or_si256(_mm256_and_si256(c0[v], low), _mm256_slli_epi64(c1[v], 32));
    const __m256i words23 =
        _mm256_or_si256(_mm256_and_si256(c2[v], low), _mm256_slli_epi64(c3[v], 32));
    const __m256i blocks02 = _mm256_unpacklo_epi64(words01, words23);
    const __m256i blocks13 = _mm256_unpackhi_epi64(words01, words23);
    auto* out = reinterpret_cast<__m256i*>(words + 16 * v);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(blocks02, blocks13, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(blocks02, blocks13, 0x31));
  }
}

}  // namespace

void random_words(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words) {
  static const bool kHasAvx2 = __builtin_cpu_supports("avx2");
  if (kHasAvx2) return words_avx2(seed, stream, first_block, words);
  words_sse2(seed, stream, first_block, words);
  words_sse2(seed, stream, first_block + 4, words + 16);
}

#else

void random_words(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words) {
  for (size_t b = 0; b < kWordsAtOnce / 4; ++b) {
    std::ranges::copy(random_block(seed, stream, first_block + b), words + 4 * b);
  }
}

#endif

}  // namespace flotilla
