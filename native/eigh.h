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
    return iterate();
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

  // Z: row j is column j of H₀H₁…, the product of the reflectors.
  void accumulate() {
    for (int i = 0; i < n_ * ld_; i++) Z[i] = vec{};
    for (int i = 0; i < n_; i++) row(Z, i)[i] = S::fill(1);
    for (int k = n_ - 3; k >= 0; k--) {
      const vec* v = row(A, k);
      int c = k + 1;
      for (; c + 3 < n_; c += 4) reflect<4>(k, c, v);
      for (; c < n_; c++) reflect<1>(k, c, v);
    }
  }

  template <int R> void reflect(int k, int c, const vec* v) {
    vec *q[R], s[R];
    for (int r = 0; r < R; r++) {
      q[r] = row(Z, c + r);
      s[r] = vec{};
    }
    for (int i = k + 1; i < n_; i++)
      for (int r = 0; r < R; r++) s[r] = S::add(s[r], v[i], q[r][i]);
    for (int r = 0; r < R; r++) s[r] *= beta_[k];
    for (int i = k + 1; i < n_; i++)
      for (int r = 0; r < R; r++) q[r][i] = S::sub(q[r][i], s[r], v[i]);
  }

  // Implicit QL. Each lane works on its own first unreduced block, from l to m: lanes need different
  // numbers of sweeps, and none waits for another to finish an eigenvalue.
  mask iterate() {
    const vec one = S::fill(1);
    int first[kSweeps], last[kSweeps], count = 0, low = 0;
    mask unfinished{};
    for (int sweep = 0; sweep < kMaxSweeps * n_; sweep++) {
      mask l = mask{} + n_, m = mask{} + (n_ - 1), open{}, closed{};
      vec dl{}, dnext{}, el = one, dm = d[n_ - 1];
      for (int i = low; i < n_ - 1; i++) {
        // Entries are below 1: eps² is nothing beside the rounding of the matrix, and ends the chase after
        // off-diagonals next to diagonals that vanish.
        mask small = S::abs(e[i]) <= Limits<T>::eps * (S::abs(d[i]) + S::abs(d[i + 1]) + Limits<T>::eps);
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
};

}  // namespace alem::ALEM_ISA
