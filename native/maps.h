// Functions of a spectrum and their first derivatives, as alem.linalg.spectral_map has them: values φ(x),
// the divided differences K, the coupling C, and the gradient in the parameters. One matrix at a time.
#pragma once

#include "functions.h"
#include "product.h"
#include "problem.h"

namespace alem::ALEM_ISA {

template <class T, int L> class Maps {
  using S = Lanes<T, L>;
  using F = Functions<T, L>;
  using vec = typename S::vec;
  using mask = typename S::mask;

 public:
  // Numbers in a row: n, made whole registers.
  static int padded(int n) { return (n + L - 1) / L * L; }
  static size_t scratch(int n) { return size_t(padded(n)) * (6 * size_t(n) + 3); }

  // ``memory`` holds scratch(n) numbers, aligned.
  Maps(const Map& map, int n, T* memory) : map_(map), n_(n), ld_(padded(n)) {
    K = memory;
    C = K + size_t(n) * ld_;
    y = C + size_t(n) * ld_;
    gaps_ = y + ld_;
    square_ = gaps_ + size_t(n) * ld_;
    a_ = square_ + size_t(n) * ld_;
    b_ = a_ + ld_;
  }

  // The current values; with derive(), K and, if coupled, C, in rows of padded(n).
  T *K, *C, *y;
  bool coupled = false;

  // y = φ(x)
  void values(const T* x) {
    start(x);
    const double* p = map_.numbers;
    for (int s = 0; s < map_.count; s++) p = value(map_.stages[s], p);
  }

  // K and C at x, and y = φ(x).
  void derive(const T* x) {
    start(x);
    coupled = false;
    each([&](int i, int j) {
      at(gaps_, i, j) = y[i] - at(y, 0, j);
      at(K, i, j) = S::fill(1);
    });
    const double* p = map_.numbers;
    for (int s = 0; s < map_.count; s++) {
      int stage = map_.stages[s];
      if (stage == kIncrement || stage == kGap) {
        couple(stage, p);
      } else {
        prepare(stage, p);
        each([&](int i, int j) {
          vec d = divided(stage, p, i, j);
          at(K, i, j) *= d;
          if (stage == kScale) {  // whose derivative is broadened, and the gap of what follows is not
            vec a = S::fill(a_[i]), b = at(a_, 0, j), mean = (y[i] + at(y, 0, j)) * T(0.5);
            at(gaps_, i, j) = S::add((a - b) * mean, (a + b) * T(0.5), at(gaps_, i, j));
          } else {
            at(gaps_, i, j) *= d;
          }
        });
        if (coupled)
          for (int i = 0; i < n_; i++) {
            T slope = diagonal(stage, p, i);
            for (int j = 0; j < ld_; j += L) at(C, i, j) *= slope;
          }
      }
      p = value(stage, p);
    }
  }

  // The gradient of ⟨g, φ(x)⟩ in the parameters of the last stage.
  void gradient(const T* x, const T* g, T* out) {
    start(x);
    const double* p = map_.numbers;
    for (int s = 0; s + 1 < map_.count; s++) p = value(map_.stages[s], p);
    if (map_.count) gradient_of(map_.stages[map_.count - 1], p, g, out);
  }

 private:
  const Map& map_;
  int n_, ld_;
  T *gaps_, *square_, *a_, *b_;

  vec& at(T* M, int i, int j) const { return *reinterpret_cast<vec*>(M + size_t(i) * ld_ + j); }

  template <class Body> void each(Body body) {
    for (int i = 0; i < n_; i++)
      for (int j = 0; j < ld_; j += L) body(i, j);
  }

  // What lies beyond n repeats the last number: nothing there divides by zero or overflows by itself.
  void start(const T* x) {
    for (int i = 0; i < ld_; i++) y[i] = x[i < n_ ? i : n_ - 1];
  }

  template <class Function> void replace(Function f) {
    for (int j = 0; j < ld_; j += L) at(y, 0, j) = f(at(y, 0, j), j);
  }

  // Moves y through a stage; the numbers of the next one follow those of this.
  const double* value(int stage, const double* p) {
    switch (stage) {
      case kClamp:
        replace([&](vec v, int) { return F::most(v, S::fill(T(p[0]))); });
        return p + 1;
      case kLog:
        replace([](vec v, int) { return F::log(v); });
        return p;
      case kExp:
        replace([](vec v, int) { return F::exp(v); });
        return p;
      case kMultiple:
        replace([&](vec v, int) { return v * T(p[0]); });
        return p + 1;
      case kScale:
        for (int i = 0; i < n_; i++) y[i] *= T(p[1 + i]);
        return p + 1 + n_;
      case kSinh:
        replace([&](vec v, int) {
          vec u = F::asinh(S::abs(v) * T(1 / p[2])) * T(p[1]), e = F::expm1(u);
          vec fraction = e <= Limits<T>::huge ? e / (e + 1) : S::fill(1);
          return F::with_sign((e + fraction) * T(0.5 * p[0] * p[2]), v);
        });
        return p + 3;
      case kIncrement: {
        T last = 0, sum = 0;
        for (int i = 0; i < n_; i++) {
          T now = y[i];
          y[i] = sum += T(p[i]) * (now - last);
          last = now;
        }
        return p + n_;
      }
      default: {  // kGap
        int widths = int(p[1]);
        for (int i = 0; i < n_; i++) {
          vec sum{};
          for (int k = 0; k < widths; k++) {
            T v = T(p[2 + k]), s = T(p[2 + widths + k]), inverse = T(1 / p[2 + widths + k]);
            vec part{};
            for (int j = 0; j < ld_; j += L) {
              vec t = F::tanh((y[i] - at(y, 0, j)) * inverse);
              part += j + L <= n_ ? t : first(t, n_ - j);
            }
            sum = S::add(sum, part, S::fill(v * s));
          }
          a_[i] = T(p[0]) * y[i] + total(sum) / n_;
        }
        for (int i = 0; i < ld_; i++) y[i] = a_[i < n_ ? i : n_ - 1];
        return p + 2 + 2 * widths;
      }
    }
  }

  // Numbers that the divided differences of a stage need for each eigenvalue.
  void prepare(int stage, const double* p) {
    if (stage == kExp)
      for (int j = 0; j < ld_; j += L) at(a_, 0, j) = F::exp(at(y, 0, j));
    if (stage == kScale) {
      for (int i = 0; i < ld_; i++) a_[i] = T(p[1 + (i < n_ ? i : n_ - 1)]);
      // Of x_i and x_j together b_i b_j is not resolved: see RankScale.
      const T most = p[0] != 0 ? y[n_ - 1] : largest(), root = S::sqrt(S::fill(100 * Limits<T>::eps))[0];
      for (int j = 0; j < ld_; j += L)
        at(b_, 0, j) = root * (p[0] != 0 ? F::exp((most - at(y, 0, j)) * T(0.5)) : S::sqrt(S::fill(most)));
    }
    if (stage == kSinh)
      for (int j = 0; j < ld_; j += L) {
        vec t = at(y, 0, j) * T(1 / p[2]), size = S::abs(t);
        at(a_, 0, j) = F::with_sign(F::asinh(size), t);
        at(b_, 0, j) = S::sqrt(S::add(S::fill(1), t, t));
      }
  }

  // f[y_i, y_j … y_{j+L−1}] of a stage without coupling.
  vec divided(int stage, const double* p, int i, int j) {
    vec x = S::fill(y[i]), z = at(y, 0, j), gap = at(gaps_, i, j), d = S::abs(gap);
    vec low = F::least(x, z), high = F::most(x, z);
    mask equal = d == 0;
    vec safe = equal ? S::fill(1) : d;
    switch (stage) {
      case kClamp: {
        // The gap may be known to more digits than the values: 1 and 0 must not come from a difference of these.
        vec bound = S::fill(T(p[0])), part = F::least((high - bound) / safe, S::fill(1));
        return low >= bound ? S::fill(1) : high <= bound ? vec{} : part;
      }
      case kLog:
        return equal ? 1 / low : F::log1p(d / low) / safe;
      case kExp: {
        vec top = F::most(S::fill(a_[i]), at(a_, 0, j));
        return equal ? top : top * (-F::expm1(-d) / safe);
      }
      case kMultiple:
        return S::fill(T(p[0]));
      case kScale: {
        vec a = S::fill(a_[i]), b = at(a_, 0, j), unequal = a - b, mean = (x + z) * T(0.5);
        vec delta = F::most(b_[i] * at(b_, 0, j), S::fill(T(1e-4)));
        vec reciprocal = gap / S::add(delta * delta, gap, gap);
        reciprocal = ((unequal == 0) & (gap == 0)) ? vec{} : reciprocal;
        return S::add((a + b) * T(0.5), unequal * mean, reciprocal);
      }
      default: {  // kSinh, of t/s, by asinh[t_i, t_j] and sinh of δ times that
        T inverse = T(1 / p[2]), delta = T(p[1]);
        vec u = x * inverse, v = z * inverse, g = d * inverse, root_u = S::fill(b_[i]), root_v = at(b_, 0, j);
        // asinh u − asinh v = asinh(u√(1+v²) − v√(1+u²)); for equal signs without the cancellation
        vec sum = S::abs(u) * root_v + S::abs(v) * root_u;
        mask apart = (u < 0) ^ (v < 0);
        vec argument = apart ? sum : g * (S::abs(u + v) / (sum > 0 ? sum : S::fill(1)));
        vec near_zero = (sum > 0) ? argument : g;
        vec rise = F::asinh(near_zero), inner = equal ? 1 / root_u : rise / (equal ? S::fill(1) : g);
        vec half = rise * (delta * T(0.5)), e = F::expm1(half);
        vec shc = half > 0 ? (e + e / (e + 1)) * T(0.5) / (half > 0 ? half : S::fill(1)) : S::fill(1);
        vec middle = S::abs(S::fill(a_[i]) + at(a_, 0, j)) * (delta * T(0.5)), top = F::exp(middle);
        return (top + 1 / top) * T(0.5) * shc * inner * T(p[0] * p[1]);
      }
    }
  }

  T diagonal(int stage, const double* p, int i) { return divided(stage, p, i, i / L * L)[i % L]; }

  // A stage whose values depend on all eigenvalues: its K, and C with the K of what came before.
  void couple(int stage, const double* p) {
    for (int i = 0; i < n_; i++) a_[i] = K[size_t(i) * ld_ + i];
    for (int i = n_; i < ld_; i++) a_[i] = 0;
    if (stage == kIncrement)
      increments(p);
    else
      interactions(p);
    each([&](int i, int j) {
      at(K, i, j) *= at(square_, i, j);
      at(gaps_, i, j) *= at(square_, i, j);
      at(C, i, j) *= at(a_, 0, j);
    });
    coupled = true;
  }

  // Σ c_k d_k / Σ d_k over the steps d_k between i and j, to square_, and the Jacobian to C: see RankIncrement.
  void increments(const double* c) {
    for (int i = 0; i < n_; i++) {
      T length = 0, weighted = 0, plain = 0;
      square_[size_t(i) * ld_ + i] = 0;
      for (int j = i + 1; j < n_; j++) {
        T step = gaps_[size_t(j) * ld_ + j - 1];
        length += step;
        weighted += T(c[j]) * step;
        plain += T(c[j]);
        T mean = length == 0 ? plain / (j - i) : weighted / length;
        square_[size_t(i) * ld_ + j] = square_[size_t(j) * ld_ + i] = mean;
      }
      for (int j = n_; j < ld_; j++) square_[size_t(i) * ld_ + j] = 0;
      for (int j = 0; j < ld_; j++)
        C[size_t(i) * ld_ + j] = j < i ? T(c[j]) - T(c[j + 1]) : j == i ? T(c[i]) : T(0);
    }
  }

  // c + Σ_k v_k tanhc(d)(1 − TTᵀ/n), T = tanh d, d the gaps over s_k, and −Σ_k v_k(1 − T²)/n: see Gap.
  void interactions(const double* p) {
    const int widths = int(p[1]);
    each([&](int i, int j) {
      at(square_, i, j) = S::fill(T(p[0]));
      at(C, i, j) = vec{};
    });
    T *tanh = b_ + ld_, *squared = tanh + size_t(n_) * ld_;
    for (int k = 0; k < widths; k++) {
      const T v = T(p[2 + k]), inverse = T(1 / p[2 + widths + k]), share = v / n_;
      each([&](int i, int j) {
        vec t = F::tanh(at(gaps_, i, j) * inverse);
        at(tanh, i, j) = j + L <= n_ ? t : first(t, n_ - j);
        at(C, i, j) -= S::sub(S::fill(1), t, t) * share;
      });
      product<T, L>(n_, tanh, tanh, squared);  // T is skew: TTᵀ = −T²
      each([&](int i, int j) {
        vec d = at(gaps_, i, j) * inverse, ratio = d == 0 ? S::fill(1) : at(tanh, i, j) / (d == 0 ? S::fill(1) : d);
        at(square_, i, j) += ratio * (v + share * at(squared, i, j));
      });
    }
  }

  void gradient_of(int stage, const double* p, const T* g, T* out) {
    if (stage == kScale) {
      for (int i = 0; i < n_; i++) out[i] = g[i] * y[i];
    } else if (stage == kIncrement) {
      T sum = 0;
      for (int i = n_ - 1; i >= 0; i--) out[i] = (sum += g[i]) * (y[i] - (i ? y[i - 1] : 0));
    } else if (stage == kSinh) {
      const double c = p[0], delta = p[1], s = p[2];
      double of_c = 0, of_delta = 0, of_s = 0;
      for (int i = 0; i < n_; i++) {
        double u = y[i] / s, a = ::asinh(u), sinh = ::sinh(delta * a), cosh = ::cosh(delta * a);
        of_c += g[i] * s * sinh;
        of_delta += g[i] * c * s * cosh * a;
        of_s += g[i] * c * (sinh - delta * cosh * u / ::sqrt(1 + u * u));
      }
      out[0] = T(of_c), out[1] = T(of_delta), out[2] = T(of_s);
    } else if (stage == kGap) {
      const int widths = int(p[1]);
      T of_c = 0;
      for (int i = 0; i < n_; i++) of_c += g[i] * y[i];
      out[0] = of_c;
      for (int k = 0; k < widths; k++) {
        const T v = T(p[2 + k]), s = T(p[2 + widths + k]), inverse = T(1 / p[2 + widths + k]);
        vec of_v{}, of_s{};
        for (int i = 0; i < n_; i++)
          for (int j = 0; j < ld_; j += L) {
            vec d = (y[i] - at(y, 0, j)) * inverse, t = F::tanh(d), bent = t - d * S::sub(S::fill(1), t, t);
            if (j + L > n_) t = first(t, n_ - j), bent = first(bent, n_ - j);
            of_v = S::add(of_v, t, S::fill(g[i]));
            of_s = S::add(of_s, bent, S::fill(g[i]));
          }
        out[1 + k] = total(of_v) * s / n_;
        out[1 + widths + k] = total(of_s) * v / n_;
      }
    }
  }

  T largest() const {
    T most = 0;
    for (int i = 0; i < n_; i++) most = y[i] > most ? y[i] : -y[i] > most ? -y[i] : most;
    return most;
  }

  // The first so many lanes, and zeros.
  static vec first(vec x, int count) {
    for (int q = 0; q < L; q++) x[q] = q < count ? x[q] : 0;
    return x;
  }

  static T total(vec x) {
    T sum = 0;
    for (int q = 0; q < L; q++) sum += x[q];
    return sum;
  }
};

}  // namespace alem::ALEM_ISA
