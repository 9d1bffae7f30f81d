// Vectors of floats of the width this file is compiled for, and the functions of them that the
// networks need. Included by the kernels only, in a namespace of their CPU.
//
// Multiply-adds are written out (fma), and the compiler is told not to form others: the same
// expression then rounds the same wherever it is inlined.
#pragma once

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float V __attribute__((vector_size(kLanes * 4)));
typedef int32_t I __attribute__((vector_size(kLanes * 4)));
typedef uint32_t U __attribute__((vector_size(kLanes * 4)));
typedef float Unaligned __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

#define FLOTILLA_INLINE inline __attribute__((always_inline))
#define FLOTILLA_INLINE_LAMBDA __attribute__((always_inline))

// Not by memcpy: for 16 bytes on ARM, g++ makes that pairs of general registers.
FLOTILLA_INLINE V load(const float* p) { return *(const Unaligned*)p; }
FLOTILLA_INLINE void store(float* p, V v) { *(Unaligned*)p = v; }
FLOTILLA_INLINE V splat(float x) { return x - V{}; }

FLOTILLA_INLINE I load_bytes(const uint8_t* p) {
#if defined(__AVX512F__)
  return (I)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u*)p));
#elif defined(__AVX2__)
  return (I)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u*)p));
#else
  return I{p[0], p[1], p[2], p[3]};
#endif
}

FLOTILLA_INLINE V load(const uint8_t* p) { return __builtin_convertvector(load_bytes(p), V); }
// 0 for 0, 1 for all others.
FLOTILLA_INLINE V ones(const uint8_t* p) { return load_bytes(p) != 0 ? splat(1) : V{}; }

FLOTILLA_INLINE V fma(V a, V b, V c) {
#if defined(__AVX512F__)
  return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
  return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(FLOTILLA_NEON)
  return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

FLOTILLA_INLINE V max(V a, V b) { return a > b ? a : b; }
FLOTILLA_INLINE V min(V a, V b) { return a < b ? a : b; }

FLOTILLA_INLINE V reciprocal(V x) {
#if defined(__AVX512F__)
  // 14 bits and one step of Newton's method: half the time of a division.
  const V y = (V)_mm512_rcp14_ps((__m512)x);
  return y * fma(-x, y, splat(2));
#elif defined(FLOTILLA_NEON)
  // 8 bits and two steps.
  V y = (V)vrecpeq_f32((float32x4_t)x);
  y *= fma(-x, y, splat(2));
  return y * fma(-x, y, splat(2));
#else
  return 1.0f / x;
#endif
}

FLOTILLA_INLINE V sqrt(V x) {
#if defined(__AVX512F__)
  return (V)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (V)_mm256_sqrt_ps((__m256)x);
#elif defined(FLOTILLA_NEON)
  return (V)vsqrtq_f32((float32x4_t)x);
#else
  V y;
  for (int i = 0; i < kLanes; ++i) y[i] = __builtin_sqrtf(x[i]);
  return y;
#endif
}

// To the 8 significant bits of a bfloat16, halves to the even one. What is not a number stays so.
FLOTILLA_INLINE V round_to_bf16(V x) {
  const U bits = (U)x;
  const U rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  return x == x ? (V)rounded : x;
}

// A rational function of degree 13 over 6, the minimax fit Eigen uses; error below 4e-7.
FLOTILLA_INLINE V tanh(V x) {
  x = max(min(x, splat(7.90531110763549805f)), splat(-7.90531110763549805f));
  const V x2 = x * x;
  V p = splat(-2.76076847742355e-16f);
  p = fma(p, x2, splat(2.00018790482477e-13f));
  p = fma(p, x2, splat(-8.60467152213735e-11f));
  p = fma(p, x2, splat(5.12229709037114e-08f));
  p = fma(p, x2, splat(1.48572235717979e-05f));
  p = fma(p, x2, splat(6.37261928875436e-04f));
  p = fma(p, x2, splat(4.89352455891786e-03f));
  V q = splat(1.19825839466702e-06f);
  q = fma(q, x2, splat(1.18534705686654e-04f));
  q = fma(q, x2, splat(2.26843463243900e-03f));
  q = fma(q, x2, splat(4.89352518554385e-03f));
  return x * p * reciprocal(q);
}

// Cephes: e^x = 2^n e^r with |r| <= ln 2 / 2. exp(0) is exactly 1. Error below 2 ulp.
FLOTILLA_INLINE V exp(V x) {
  x = max(min(x, splat(88.0f)), splat(-87.0f));
  const V magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V shifted = fma(x, splat(1.44269504088896341f), magic);
  const V n = shifted - magic;
  V r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  V p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r + 1.0f);
  const I power = (I)shifted << 23;  // the low bits of `shifted` are n
  return (V)((I)p + power);
}

// Cephes: x = 2^n m with m in [sqrt 1/2, sqrt 2). log(1) is exactly 0. REQUIRES: x > 0, normal.
FLOTILLA_INLINE V log(V x) {
  const I bits = (I)x;
  const I half = (I)splat(0.70710678f);
  const I n = (bits - half) >> 23;
  const V m = (V)(bits - (n << 23)) - 1.0f;
  const V e = __builtin_convertvector(n, V);
  V p = splat(7.0376836292e-2f);
  p = fma(p, m, splat(-1.1514610310e-1f));
  p = fma(p, m, splat(1.1676998740e-1f));
  p = fma(p, m, splat(-1.2420140846e-1f));
  p = fma(p, m, splat(1.4249322787e-1f));
  p = fma(p, m, splat(-1.6668057665e-1f));
  p = fma(p, m, splat(2.0000714765e-1f));
  p = fma(p, m, splat(-2.4999993993e-1f));
  p = fma(p, m, splat(3.3333331174e-1f));
  const V m2 = m * m;
  V y = p * m * m2;
  y = fma(e, splat(-2.12194440e-4f), y);
  y = fma(m2, splat(-0.5f), y);
  return fma(e, splat(0.693359375f), m + y);
}

// The sums of neighbours: those of a, then those of b.
FLOTILLA_INLINE V pair_sums(V a, V b) {
#if defined(__AVX512F__)
  const V even =
      __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const V odd =
      __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
  const V even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  const V odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  const V even = __builtin_shufflevector(a, b, 0, 2, 4, 6);
  const V odd = __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
  return even + odd;
}

// Lane i of the result is the sum over the lanes of t[i]. Overwrites t.
FLOTILLA_INLINE V lane_sums(V (&t)[kLanes]) {
  for (int width = kLanes; width > 1; width /= 2) {
    for (int i = 0; i < width / 2; ++i) t[i] = pair_sums(t[2 * i], t[2 * i + 1]);
  }
  return t[0];
}

// The first halves of a and b, lane by lane in turn; and the second halves.
FLOTILLA_INLINE V zip_first(V a, V b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
FLOTILLA_INLINE V zip_second(V a, V b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// Rows become columns.
FLOTILLA_INLINE void transpose(V (&t)[kLanes]) {
  for (int width = kLanes; width > 1; width /= 2) {
    V next[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = zip_first(t[i], t[i + kLanes / 2]);
      next[2 * i + 1] = zip_second(t[i], t[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) t[i] = next[i];
  }
}
