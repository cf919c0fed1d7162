// L numbers in one register, of as many matrices or of one: vectors of L lanes, and the operations they need.
//
// This code is compiled once for each instruction set, ALEM_ISA, in a namespace of that name: the linker
// must not take a function compiled for another one. For the same reason it uses no templates of the
// standard library.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace alem::ALEM_ISA {

inline int least(int a, int b) { return a < b ? a : b; }
inline int64_t least64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int most(int a, int b) { return a > b ? a : b; }

// The smallest and the largest normal number, the distance from 1 to the next, and what is no number.
template <class T> struct Limits;
template <> struct Limits<float> {
  static constexpr float tiny = 0x1p-126f, huge = 0x1.fffffep127f, eps = 0x1p-23f, nan = __builtin_nanf("");
};
template <> struct Limits<double> {
  static constexpr double tiny = 0x1p-1022, huge = 0x1.fffffffffffffp1023, eps = 0x1p-52, nan = __builtin_nan("");
};

template <class T> struct Bits;
template <> struct Bits<float> { using type = int32_t; };
template <> struct Bits<double> { using type = int64_t; };

template <class T, int L> struct Lanes {
  typedef T vec __attribute__((vector_size(L * sizeof(T))));
  typedef typename Bits<T>::type mask __attribute__((vector_size(L * sizeof(T))));

  static constexpr int kBytes = L * sizeof(T);
  static constexpr bool kSingle = sizeof(T) == 4;

  static vec fill(T x) { return vec{} + x; }

  static vec abs(vec x) { return x < 0 ? -x : x; }

  static bool any(mask m) {
    typename Bits<T>::type all = 0;
    for (int q = 0; q < L; q++) all |= m[q];
    return all != 0;
  }

  // c + ab and c − ab, rounded once where the machine can. They are spelled out, and the compiler told to
  // leave the rest alone, so that every width rounds alike.
  static vec add(vec c, vec a, vec b) {
#if defined(__AVX512F__)
    if constexpr (kBytes == 64 && kSingle) return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    if constexpr (kBytes == 64 && !kSingle) return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__FMA__)
    if constexpr (kBytes == 32 && kSingle) return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    if constexpr (kBytes == 32 && !kSingle) return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
    if constexpr (kBytes == 16 && kSingle) return (vec)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
    if constexpr (kBytes == 16 && !kSingle) return (vec)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
#if defined(__aarch64__)
    if constexpr (kSingle) return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
    else return (vec)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
    return c + a * b;
  }

  static vec sub(vec c, vec a, vec b) {
#if defined(__AVX512F__)
    if constexpr (kBytes == 64 && kSingle) return (vec)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
    if constexpr (kBytes == 64 && !kSingle) return (vec)_mm512_fnmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__FMA__)
    if constexpr (kBytes == 32 && kSingle) return (vec)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
    if constexpr (kBytes == 32 && !kSingle) return (vec)_mm256_fnmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
    if constexpr (kBytes == 16 && kSingle) return (vec)_mm_fnmadd_ps((__m128)a, (__m128)b, (__m128)c);
    if constexpr (kBytes == 16 && !kSingle) return (vec)_mm_fnmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
#if defined(__aarch64__)
    if constexpr (kSingle) return (vec)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
    else return (vec)vfmsq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
    return c - a * b;
  }

  static vec sqrt(vec x) {
#if defined(__AVX512F__)
    if constexpr (kBytes == 64 && kSingle) return (vec)_mm512_sqrt_ps((__m512)x);
    if constexpr (kBytes == 64 && !kSingle) return (vec)_mm512_sqrt_pd((__m512d)x);
#endif
#if defined(__AVX2__)
    if constexpr (kBytes == 32 && kSingle) return (vec)_mm256_sqrt_ps((__m256)x);
    if constexpr (kBytes == 32 && !kSingle) return (vec)_mm256_sqrt_pd((__m256d)x);
#endif
#if defined(__SSE2__)
    if constexpr (kBytes == 16 && kSingle) return (vec)_mm_sqrt_ps((__m128)x);
    if constexpr (kBytes == 16 && !kSingle) return (vec)_mm_sqrt_pd((__m128d)x);
#endif
    vec r;
    for (int q = 0; q < L; q++) r[q] = T(::sqrt(x[q]));
    return r;
  }

  // 1/√x for normal x > 0, to about a unit in the last place.
  static vec rsqrt(vec x) {
#if defined(__AVX512F__) && defined(__AVX512VL__)  // 14 bits to begin with; a Newton step doubles them
    vec r;
    if constexpr (kBytes == 64 && kSingle) r = (vec)_mm512_rsqrt14_ps((__m512)x);
    if constexpr (kBytes == 32 && kSingle) r = (vec)_mm256_rsqrt14_ps((__m256)x);
    if constexpr (kBytes == 16 && kSingle) r = (vec)_mm_rsqrt14_ps((__m128)x);
    if constexpr (kBytes == 64 && !kSingle) r = (vec)_mm512_rsqrt14_pd((__m512d)x);
    if constexpr (kBytes == 32 && !kSingle) r = (vec)_mm256_rsqrt14_pd((__m256d)x);
    if constexpr (kBytes == 16 && !kSingle) r = (vec)_mm_rsqrt14_pd((__m128d)x);
    if constexpr (!kSingle) r = add(r, r * T(0.5), sub(fill(1), x * r, r));
    // With the term of second order: without it the result is too small on average, by a hundredth of a
    // unit, which hundreds of rotations would add up.
    vec h = sub(fill(1), x * r, r);
    return add(r, r * h, add(fill(T(0.5)), fill(T(0.375)), h));
#else
    return 1 / sqrt(x);
#endif
  }

};

}  // namespace alem::ALEM_ISA
