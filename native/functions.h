// Elementary functions of L numbers at once, to a unit or two in the last place.
#pragma once

#include "lanes.h"

namespace alem::ALEM_ISA {

// What the layout of floats and doubles is.
template <class T> struct Layout;
template <> struct Layout<float> {
  static constexpr int mantissa = 23, bias = 127;
  static constexpr int32_t root_half = 0x3f3504f3;  // √½, and 1
  static constexpr int32_t one = 0x3f800000;
  static constexpr float round = 0x1.8p23f;  // adding it rounds to a whole number, in the low bits
  static constexpr float ln2_high = 0x1.62e3p-1f, ln2_low = 0x1.2fefa2p-17f;
  static constexpr float lowest = -87.3f, highest = 88.3f;  // between which exp and 1/exp are normal
};
template <> struct Layout<double> {
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr int64_t root_half = 0x3fe6a09e667f3bcd;
  static constexpr int64_t one = 0x3ff0000000000000;
  static constexpr double round = 0x1.8p52;
  static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr double lowest = -708, highest = 709.4;
};

template <class T, int L> struct Functions {
  using S = Lanes<T, L>;
  using vec = typename S::vec;
  using mask = typename S::mask;
  using F = Layout<T>;

  static vec least(vec a, vec b) { return a < b ? a : b; }
  static vec most(vec a, vec b) { return a > b ? a : b; }
  static vec with_sign(vec size, vec sign) { return sign < 0 ? -size : size; }

  // c[0] + c[1]x + … + c[N − 1]xᴺ⁻¹
  template <int N> static vec polynomial(const T (&c)[N], vec x) {
    vec sum = S::fill(c[N - 1]);
    for (int i = N - 2; i >= 0; i--) sum = S::add(S::fill(c[i]), sum, x);
    return sum;
  }

  // ln x; −∞ at 0, NaN below.
  static vec log(vec x) {
    mask tiny = x < Limits<T>::tiny;
    vec value = log_of_sum(tiny ? x * T(1ll << (F::mantissa + 2)) : x, vec{}, tiny ? mask{} - (F::mantissa + 2) : mask{});
    return x > 0 ? (x <= Limits<T>::huge ? value : x) : x == 0 ? S::fill(-infinity()) : S::fill(Limits<T>::nan);
  }

  // ln(1 + x), for x ≥ 0.
  static vec log1p(vec x) {
    vec u = 1 + x, rest = x < 1 ? x - (u - 1) : 1 - (u - x);
    vec ratio = rest / u;
    vec value = log_of_sum(u, ratio, mask{});
    return u <= Limits<T>::huge ? value : u;  // infinite, or NaN
  }

  // eˣ; 0 and ∞ beyond lowest and highest.
  static vec exp(vec x) {
    vec power, rest = reduced(x, power), value = S::add(power, power, rest);
    value = x < F::lowest ? vec{} : value;
    return x > F::highest ? S::fill(infinity()) : value;
  }

  // eˣ − 1
  static vec expm1(vec x) {
    vec power, rest = reduced(x, power), value = S::add(power - 1, power, rest);
    return x > F::highest ? S::fill(infinity()) : value;
  }

  static vec tanh(vec x) {
    vec e = expm1(S::abs(x) * -2);
    return with_sign(-e / (e + 2), x);
  }

  // asinh z, for z ≥ 0.
  static vec asinh(vec z) {
    vec square = z * z;
    vec small = log1p(z + square / (1 + S::sqrt(1 + square)));
    mask large = z > T(1e9);  // whose square may overflow
    return large ? log(large ? z : S::fill(1)) + T(0.693147180559945309417) : small;
  }

 private:
  static T infinity() { return T(__builtin_inf()); }

  // ln u + c + k·ln 2, u > 0 normal and c small. The polynomial is that of the C libraries.
  static vec log_of_sum(vec u, vec c, mask k) {
    mask bits = (mask)u + (F::one - F::root_half);
    k += (bits >> F::mantissa) - F::bias;
    vec m = (vec)((bits & ((typename Bits<T>::type(1) << F::mantissa) - 1)) + F::root_half);
    vec whole = (vec)(k + (mask)S::fill(F::round)) - F::round;
    vec f = m - 1, s = f / (2 + f), z = s * s, half = f * f * T(0.5), R;
    if constexpr (sizeof(T) == 4) {
      constexpr T c4[] = {0xaaaaaa.0p-24f, 0xccce13.0p-25f, 0x91e9ee.0p-25f, 0xf89e26.0p-26f};
      R = z * polynomial(c4, z);
    } else {
      constexpr T c7[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                          2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                          1.479819860511658591e-01};
      R = z * polynomial(c7, z);
    }
    vec low = S::add(c, whole, S::fill(F::ln2_low));
    return S::add(f - (half - S::add(low, s, half + R)), whole, S::fill(F::ln2_high));
  }

  // eʳ − 1 and 2ᵏ with x = r + k·ln 2, |r| ≤ ln 2/2.
  static vec reduced(vec x, vec& power) {
    x = x > F::highest ? S::fill(F::highest) : x < F::lowest ? S::fill(F::lowest) : x;  // a NaN stays
    vec sum = S::add(S::fill(F::round), x, S::fill(T(1.44269504088896340736))), k = sum - F::round;
    vec r = S::sub(S::sub(x, k, S::fill(F::ln2_high)), k, S::fill(F::ln2_low));
    power = (vec)(((mask)sum - (mask)S::fill(F::round) + F::bias) << F::mantissa);
    vec tail;
    if constexpr (sizeof(T) == 4) {
      constexpr T c[] = {T(1) / 2, T(1) / 6, T(1) / 24, T(1) / 120, T(1) / 720, T(1) / 5040};
      tail = polynomial(c, r);
    } else {
      constexpr T c[] = {T(1) / 2, T(1) / 6, T(1) / 24, T(1) / 120, T(1) / 720, T(1) / 5040, T(1) / 40320,
                         T(1) / 362880, T(1) / 3628800, T(1) / 39916800, T(1) / 479001600,
                         T(1) / 6227020800, T(1) / 87178291200};
      tail = polynomial(c, r);
    }
    return S::add(r, r * r, tail);
  }
};

}  // namespace alem::ALEM_ISA
