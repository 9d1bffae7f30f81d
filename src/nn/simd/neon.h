// The intrinsics of NEON that simd.h needs. On x86 with FMA they are functions that give the same
// bits, so that what ARM computes can be repeated and checked there.
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>

#include <cstdint>

typedef __m128 float32x4_t;

__attribute__((always_inline)) inline float32x4_t vfmaq_f32(float32x4_t c, float32x4_t a,
                                                            float32x4_t b) {
  return _mm_fmadd_ps(a, b, c);
}

__attribute__((always_inline)) inline float32x4_t vsqrtq_f32(float32x4_t x) {
  return _mm_sqrt_ps(x);
}

// The estimate of 1 / x, in the nine bits that ARM's manual prescribes. REQUIRES: x is normal.
__attribute__((always_inline)) inline float32x4_t vrecpeq_f32(float32x4_t x) {
  typedef float V __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  const auto power_of_2 = [](I n) { return (V)((n + 127) << 23); };

  const I bits = (I)x;
  const I exponent = (bits >> 23) & 255, half = exponent / 2;
  const I middle = 2 * (256 + ((bits >> 15) & 255)) + 1;  // of all that have the same nine bits
  const V quotient = (float)(1 << 19) / __builtin_convertvector(middle, V);
  const I estimate = (__builtin_convertvector(quotient, I) + 1) / 2;
  // In two steps, for the result may be smaller than the least normal number.
  const V size = __builtin_convertvector(estimate, V) * power_of_2(-half) *
                 power_of_2(118 - (exponent - half));
  return (float32x4_t)((I)size | (bits & INT32_MIN));
}
#endif
