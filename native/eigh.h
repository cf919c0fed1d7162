// Eigendecomposition of L symmetric n×n matrices at once, one in each lane.
//
// Householder reduction to tridiagonal form, and implicit QL with Wilkinson's shift: the algorithms of
// EISPACK and LAPACK, in lockstep. A lane that has nothing left to do in a sweep gets rotations by zero.
//
// Three things decide accuracy and speed:
//  - only the lower triangle is read and updated, so there are no two versions of an entry;
//  - the rank-two update of one Householder step and the product with the next reflector are one pass;
//  - the rotations of several sweeps are stored and then applied to a few columns at a time, which stay
//    in the first-level cache, each row being loaded and stored once for each sweep.
#pragma once

#include "lanes.h"

namespace alem::ALEM_ISA {

template <class T, int L> class Eigh {
  using S = Lanes<T, L>;
  using vec = typename S::vec;
  using mask = typename S::mask;

  static constexpr int kSweeps = 8;    // whose rotations are stored before they are applied
  static constexpr int kColumns = 4;   // of the eigenvectors, to which they are applied together
  // Rows of a product that are summed at once: with kColumns, what the registers hold.
#if defined(__AVX512F__) || defined(__aarch64__)
  static constexpr int kRows = 4;
#else
  static constexpr int kRows = 2;
#endif
  static constexpr int kTerms = 16;  // of a sum, which are added up by themselves: that loses fewer digits
  static constexpr int kMaxSweeps = 30;  // for each eigenvalue, as in LAPACK; less than two are usual

 public:
  // Vectors of scratch that an n×n problem needs.
  static size_t scratch(int n) { return 2 * size_t(n) * stride(n) + (7 + 2 * kSweeps) * size_t(n); }

  // Rows are an odd number of vectors apart: at powers of two they would compete for the same cache sets.
  static int stride(int n) { return n | 1; }

  Eigh(int n, vec* memory, bool vectors) : n_(n), ld_(stride(n)), vectors_(vectors) {
    A = memory;
    Z = A + size_t(n) * ld_;
    d = Z + size_t(n) * ld_;
    e = d + n;
    v_ = e + n;
    w_ = v_ + n;
    next_ = w_ + n;
    y_ = next_ + n;
    beta_ = y_ + n;
    cosines_ = beta_ + n;
    sines_ = cosines_ + size_t(kSweeps) * n;
  }

  // Decomposes A, of which the lower triangle counts and is destroyed. Row j of Z is then an eigenvector
  // for d[j], in no order. The result has the lanes that did not converge.
  mask solve() {
    tridiagonalize();
    if (vectors_) accumulate();
    mask unfinished = iterate();
    if (vectors_) orthonormalize();
    return unfinished;
  }

  vec *A, *Z, *d, *e;

 private:
  int n_, ld_;
  bool vectors_;
  vec *v_, *w_, *next_, *y_, *beta_, *cosines_, *sines_;

  vec* row(vec* M, int i) const { return M + size_t(i) * ld_; }

  // The reflector I − β v vᵀ that takes column k below the diagonal to a multiple of the first unit
  // vector; v goes to ``v`` and, for later, to row k right of the diagonal.
  void reflector(int k, vec* v) {
    vec squares{};
    for (int i = k + 1; i < n_; i++) {
      v[i] = row(A, i)[k];
      squares = S::add(squares, v[i], v[i]);
    }
    vec x = v[k + 1], length = S::sqrt(squares), alpha = x > 0 ? -length : length;
    v[k + 1] = x - alpha;
    vec norm = S::add(squares, S::abs(x), length) * 2;  // |v|², without a difference
    mask ok = norm > Limits<T>::tiny;
    beta_[k] = ok ? S::fill(2) / (ok ? norm : S::fill(1)) : vec{};
    e[k] = ok ? alpha : x;
    vec* stored = row(A, k);
    for (int i = k + 1; i < n_; i++) stored[i] = v[i];
  }

  void tridiagonalize() {
    if (n_ == 1) {
      d[0] = A[0];
      e[0] = vec{};
      return;
    }
    vec *v = v_, *next = next_;
    for (int i = 0; i < n_; i++) v_[i] = next_[i] = w_[i] = y_[i] = vec{};
    d[0] = A[0];
    if (n_ > 2) {
      reflector(0, v);
      pass(1, nullptr, nullptr, v);
    }
    for (int k = 0; k < n_ - 2; k++) {
      // w = βAv − ½β²(vᵀAv)v, with which A becomes A − vwᵀ − wvᵀ
      vec b = beta_[k], product{};
      for (int i = k + 1; i < n_; i++) {
        w_[i] = b * y_[i];
        product = S::add(product, w_[i], v[i]);
      }
      vec half = b * product * T(0.5);
      for (int i = k + 1; i < n_; i++) w_[i] = S::sub(w_[i], half, v[i]);
      vec v1 = v[k + 1], w1 = w_[k + 1];
      for (int i = k + 1; i < n_; i++) {
        vec* x = row(A, i) + k + 1;
        *x = S::sub(S::sub(*x, v[i], w1), w_[i], v1);
      }
      d[k + 1] = row(A, k + 1)[k + 1];
      if (k + 1 < n_ - 2) {
        reflector(k + 1, next);
        pass(k + 2, v, w_, next);
        vec* last = v;
        v = next;
        next = last;
      }
    }
    if (n_ > 2) row(A, n_ - 1)[n_ - 1] -= v[n_ - 1] * w_[n_ - 1] * 2;
    d[n_ - 1] = row(A, n_ - 1)[n_ - 1];
    e[n_ - 2] = row(A, n_ - 1)[n_ - 2];
    e[n_ - 1] = vec{};
  }

  // From index s on: A ← A − vwᵀ − wvᵀ (unless v is null), and y = A u, by one pass over the triangle.
  void pass(int s, const vec* v, const vec* w, const vec* u) {
    for (int i = s; i < n_; i++) y_[i] = vec{};
    int i = s;
    if (v) {
      for (; i + 1 < n_; i += 2) rows<2, true>(s, i, v, w, u);
      for (; i < n_; i++) rows<1, true>(s, i, v, w, u);
    } else {
      for (; i + 1 < n_; i += 2) rows<2, false>(s, i, v, w, u);
      for (; i < n_; i++) rows<1, false>(s, i, v, w, u);
    }
  }

  template <int R, bool kUpdate> void rows(int s, int i, const vec* v, const vec* w, const vec* u) {
    vec *a[R], vi[R], wi[R], ui[R], sum[R];
    for (int r = 0; r < R; r++) {
      a[r] = row(A, i + r);
      if (kUpdate) vi[r] = v[i + r], wi[r] = w[i + r];
      ui[r] = u[i + r];
      sum[r] = vec{};
    }
    for (int j = s; j < i; j++) {
      vec vj, wj, uj = u[j], yj = y_[j];
      if (kUpdate) vj = v[j], wj = w[j];
      for (int r = 0; r < R; r++) {
        vec x = a[r][j];
        if (kUpdate) a[r][j] = x = S::sub(S::sub(x, vi[r], wj), wi[r], vj);
        sum[r] = S::add(sum[r], x, uj);
        yj = S::add(yj, x, ui[r]);
      }
      y_[j] = yj;
    }
    for (int r = 0; r < R; r++) {  // the triangle at the diagonal
      for (int c = 0; c <= r; c++) {
        vec x = a[r][i + c];
        if (kUpdate) a[r][i + c] = x = S::sub(S::sub(x, vi[r], w[i + c]), wi[r], v[i + c]);
        sum[r] = S::add(sum[r], x, u[i + c]);
        if (c < r) sum[c] = S::add(sum[c], x, ui[r]);
      }
    }
    for (int r = 0; r < R; r++) y_[i + r] += sum[r];
  }

  // Z: row j is column j of H₀H₁…, the product of the reflectors, two of them in each pass over the rows.
  void accumulate() {
    for (size_t i = 0; i < size_t(n_) * ld_; i++) Z[i] = vec{};
    for (int i = 0; i < n_; i++) row(Z, i)[i] = S::fill(1);
    int k = n_ - 3;
    for (; k > 0; k -= 2) {
      const vec *u = row(A, k - 1), *v = row(A, k);
      vec uv{};
      for (int i = k + 1; i < n_; i++) uv = S::add(uv, u[i], v[i]);
      int c = k + 1;
      for (; c + 3 < n_; c += 4) reflect_twice<4>(k, c, u, v, uv);
      for (; c < n_; c++) reflect_twice<1>(k, c, u, v, uv);
      reflect(k - 1, k, u);
    }
    if (k == 0)
      for (int c = 1; c < n_; c++) reflect(0, c, row(A, 0));
  }

  // Row c of Z by the reflector of step k.
  void reflect(int k, int c, const vec* v) {
    vec *q = row(Z, c), s{};
    for (int i = k + 1; i < n_; i++) s = S::add(s, v[i], q[i]);
    s *= beta_[k];
    for (int i = k + 1; i < n_; i++) q[i] = S::sub(q[i], s, v[i]);
  }

  // R rows from c on by that of step k, v, and then by that of step k − 1, u.
  template <int R> void reflect_twice(int k, int c, const vec* u, const vec* v, vec uv) {
    vec *q[R], s[R], t[R];
    for (int r = 0; r < R; r++) {
      q[r] = row(Z, c + r);
      s[r] = t[r] = vec{};
    }
    for (int i = k + 1; i < n_; i++)
      for (int r = 0; r < R; r++) {
        s[r] = S::add(s[r], v[i], q[r][i]);
        t[r] = S::add(t[r], u[i], q[r][i]);
      }
    for (int r = 0; r < R; r++) {
      s[r] *= beta_[k];
      t[r] = S::sub(t[r], s[r], uv) * beta_[k - 1];
      q[r][k] = -t[r] * u[k];
    }
    for (int i = k + 1; i < n_; i++)
      for (int r = 0; r < R; r++) q[r][i] = S::sub(S::sub(q[r][i], s[r], v[i]), t[r], u[i]);
  }

  // Implicit QL. Each lane works on its own first unreduced block, from l to m: lanes need different
  // numbers of sweeps, and none waits for another to finish an eigenvalue.
  mask iterate() {
    const vec one = S::fill(1);
    int first[kSweeps], last[kSweeps], count = 0, low = 0;
    mask unfinished{};
    // An off-diagonal entry of eps/8 of the largest is nothing beside the rounding of what lies behind;
    // between eigenvalues that are zero to rounding, to chase less would take sweeps for nothing.
    vec floor{};
    for (int i = 0; i < n_; i++) {
      vec size = S::abs(d[i]) + S::abs(e[i]);
      floor = size > floor ? size : floor;
    }
    floor = floor * T(0.125);
    for (int sweep = 0; sweep < kMaxSweeps * n_; sweep++) {
      mask l = mask{} + n_, m = mask{} + (n_ - 1), open{}, closed{};
      vec dl{}, dnext{}, el = one, dm = d[n_ - 1];
      for (int i = low; i < n_ - 1; i++) {
        mask small = S::abs(e[i]) <= Limits<T>::eps * (S::abs(d[i]) + S::abs(d[i + 1]) + floor);
        // Once small it is zero: it must not grow back above the bound while d[i + 1] changes, or else the
        // result would depend on how far back the other lanes make this loop look.
        e[i] = ~open & small ? vec{} : e[i];
        mask begins = ~open & ~small, ends = open & ~closed & small;
        l = begins ? mask{} + i : l;
        dl = begins ? d[i] : dl;
        dnext = begins ? d[i + 1] : dnext;
        el = begins ? e[i] : el;
        open |= begins;
        m = ends ? mask{} + i : m;
        dm = ends ? d[i] : dm;
        closed |= ends;
      }
      unfinished = open;
      int bottom = n_, top = 0;
      for (int q = 0; q < L; q++)
        if (open[q]) {
          bottom = least(bottom, int(l[q]));
          top = most(top, int(m[q]));
        }
      if (bottom == n_) break;
      low = bottom;

      vec g = (dnext - dl) / (el * 2), r = S::sqrt(S::add(one, g, g));
      g = dm - dl + el / (g + (g < 0 ? -r : r));
      vec s = one, c = one, p{};
      vec *cosines = cosines_ + size_t(count) * n_, *sines = sines_ + size_t(count) * n_;
      for (int i = top - 1; i >= bottom; i--) {
        mask on = open & ((mask{} + i) < m) & ((mask{} + i) >= l);
        vec f = s * e[i], b = c * e[i], square = S::add(g * g, f, f);
        mask nonzero = square > Limits<T>::tiny;
        vec inverse = S::rsqrt(nonzero ? square : one);
        vec s2 = nonzero ? f * inverse : vec{}, c2 = nonzero ? g * inverse : one;
        e[i + 1] = on ? (nonzero ? square * inverse : vec{}) : e[i + 1];
        vec g2 = d[i + 1] - p, r2 = S::add(c2 * b * 2, d[i] - g2, s2), p2 = s2 * r2;
        d[i + 1] = on ? g2 + p2 : d[i + 1];
        s = on ? s2 : s;
        c = on ? c2 : c;
        p = on ? p2 : p;
        g = on ? S::add(-b, c2, r2) : g;
        sines[i] = on ? s2 : vec{};
        cosines[i] = on ? c2 : one;
      }
      for (int i = bottom; i <= top; i++) {
        mask here = open & (l == (mask{} + i));
        d[i] = here ? d[i] - p : d[i];
        e[i] = here ? g : e[i];
        e[i] = (open & (m == (mask{} + i))) ? vec{} : e[i];
      }
      if (vectors_) {
        first[count] = bottom;
        last[count] = top;
        if (++count == kSweeps) {
          rotate(first, last, count);
          count = 0;
        }
      }
    }
    rotate(first, last, count);
    return unfinished;
  }

  // Applies the stored sweeps to the rows of Z, a few of their columns at a time.
  void rotate(const int* first, const int* last, int count) {
    int k = 0;
    for (; k + kColumns <= n_; k += kColumns)
      for (int sweep = 0; sweep < count; sweep++) chain<kColumns>(k, sweep, first[sweep], last[sweep]);
    for (; k < n_; k++)
      for (int sweep = 0; sweep < count; sweep++) chain<1>(k, sweep, first[sweep], last[sweep]);
  }

  template <int C> void chain(int k, int sweep, int first, int last) {
    const vec *cosines = cosines_ + size_t(sweep) * n_, *sines = sines_ + size_t(sweep) * n_;
    vec upper[C];
    vec* z = row(Z, last) + k;
    for (int t = 0; t < C; t++) upper[t] = z[t];
    for (int i = last - 1; i >= first; i--) {
      vec s = sines[i], c = cosines[i], *below = z - ld_;
      for (int t = 0; t < C; t++) {
        vec lower = below[t];
        z[t] = S::add(c * upper[t], s, lower);
        upper[t] = S::sub(c * lower, s, upper[t]);
      }
      z = below;
    }
    for (int t = 0; t < C; t++) z[t] = upper[t];
  }

  // Z ← Z − ½(ZZᵀ − I)Z, a Newton–Schulz step to the nearest orthonormal rows: it takes away the rounding
  // of some 2n rotations of each row, the larger part of all errors.
  void orthonormalize() {
    int i = 0;
    for (; i + kRows <= n_; i += kRows) gram<kRows>(i);
    for (; i < n_; i++) gram<1>(i);
    int k = 0;
    for (; k + kColumns <= n_; k += kColumns) correct<kColumns>(k);
    for (; k < n_; k++) correct<1>(k);
  }

  // Rows i … i + R − 1 of −½(ZZᵀ − I), and by symmetry the columns, to A.
  template <int R> void gram(int i) {
    int j = 0;
    for (; j + 4 <= i + R; j += 4) products<R, 4>(i, j);
    for (; j < i + R; j++) products<R, 1>(i, j);
  }

  template <int R, int C> void products(int i, int j) {
    vec total[R][C];
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) total[r][c] = i + r == j + c ? S::fill(-1) : vec{};
    const vec *x = row(Z, i), *y = row(Z, j);
    for (int k = 0; k < n_; k += kTerms) {
      vec sum[R][C]{};
      for (int m = k; m < least(k + kTerms, n_); m++) {
        vec b[C];
        for (int c = 0; c < C; c++) b[c] = y[c * ld_ + m];
        for (int r = 0; r < R; r++) {
          vec a = x[r * ld_ + m];
          for (int c = 0; c < C; c++) sum[r][c] = S::add(sum[r][c], a, b[c]);
        }
      }
      for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) total[r][c] += sum[r][c];
    }
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) row(A, i + r)[j + c] = row(A, j + c)[i + r] = total[r][c] * T(-0.5);
  }

  // Columns k … k + C − 1 of Z. That rows already corrected serve for the others is of second order.
  template <int C> void correct(int k) {
    int i = 0;
    for (; i + kRows <= n_; i += kRows) combine<kRows, C>(i, k);
    for (; i < n_; i++) combine<1, C>(i, k);
  }

  template <int R, int C> void combine(int i, int k) {
    vec sum[R][C];
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) sum[r][c] = vec{};
    const vec *weights = row(A, i), *z = Z + k;
    for (int j = 0; j < n_; j++, z += ld_) {
      vec b[C];
      for (int c = 0; c < C; c++) b[c] = z[c];
      for (int r = 0; r < R; r++) {
        vec a = weights[r * ld_ + j];
        for (int c = 0; c < C; c++) sum[r][c] = S::add(sum[r][c], a, b[c]);
      }
    }
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) row(Z, i + r)[k + c] += sum[r][c];
  }
};

}  // namespace alem::ALEM_ISA
