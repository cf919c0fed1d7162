// A batch of matrices in torch's layout, pack by pack through the lanes.
#pragma once

#include "eigh.h"
#include "problem.h"

namespace alem::ALEM_ISA {

// The lower triangles of L matrices from index b on, those after the last repeating it, to rows that are
// ``ld`` vectors apart. ``largest`` gets the largest size of an entry of each, or NaN if one is not finite.
template <class T, int L>
void load(const Matrices<T>& from, int64_t b, typename Lanes<T, L>::vec* A, int64_t ld, T* largest) {
  T poison[L];
  for (int q = 0; q < L; q++) largest[q] = poison[q] = 0;
  for (int i = 0; i < from.n; i++) {  // a row of all lanes stays in the first-level cache
    for (int q = 0; q < L; q++) {
      const T* row = from.start + least64(b + q, from.batch - 1) * from.batch_stride + i * from.row_stride;
      T* lane = reinterpret_cast<T*>(A + i * ld) + q;
      T most = largest[q], bad = poison[q];
      for (int j = 0; j <= i; j++) {
        T x = row[j * from.column_stride], size = x < 0 ? -x : x;
        lane[int64_t(j) * L] = x;
        most = most < size ? size : most;
        bad += x * 0;
      }
      largest[q] = most;
      poison[q] = bad;
    }
  }
  for (int q = 0; q < L; q++) largest[q] += poison[q];
}

// Says that matrix b has no decomposition.
template <class T> void refuse(const Eigenproblem<T>& problem, int64_t b, int32_t code) {
  const int64_t n = problem.matrices.n;
  problem.info[b] = code;
  for (int64_t i = 0; i < n; i++) problem.values[b * n + i] = Limits<T>::nan;
  for (int64_t i = 0; problem.vectors && i < n * n; i++) problem.vectors[b * n * n + i] = Limits<T>::nan;
}

// Packs first … last − 1 of the batch, L matrices in each.
template <class T, int L> class Packs {
  using S = Lanes<T, L>;
  using vec = typename S::vec;

 public:
  static void run(const Eigenproblem<T>& problem, int64_t first, int64_t last) {
    const int n = int(problem.matrices.n);
    const size_t vectors = Eigh<T, L>::scratch(n);
    vec* memory = static_cast<vec*>(scratch(vectors * sizeof(vec) + size_t(n) * (L + 1) * sizeof(int)));
    if (!memory) {
      for (int64_t b = first * L; b < last * L && b < problem.matrices.batch; b++) refuse(problem, b, kNotConverged);
      return;
    }
    Eigh<T, L> solver(n, memory, problem.vectors != nullptr);
    int *order = reinterpret_cast<int*>(memory + vectors), *place = order + n;
    for (int64_t pack = first; pack < last; pack++) one(problem, pack * L, solver, order, place);
  }

 private:
  // L matrices from index b on.
  static void one(const Eigenproblem<T>& problem, int64_t b, Eigh<T, L>& solver, int* order, int* place) {
    const int n = int(problem.matrices.n);
    const int64_t ld = Eigh<T, L>::stride(n);
    // Scaled by a power of two to a largest entry below 1, so that squares neither overflow nor vanish.
    // The power is taken in two factors, either of which is a normal number.
    T largest[L];
    load<T, L>(problem.matrices, b, solver.A, ld, largest);
    vec up, down;
    for (int q = 0; q < L; q++) {
      if (largest[q] != largest[q])  // nothing to decompose, and nothing that should keep the others waiting
        for (int i = 0; i < n; i++)
          for (int j = 0; j <= i; j++) solver.A[i * ld + j][q] = 0;
      int exponent = 0;
      if (largest[q] > 0) ::frexp(largest[q], &exponent);
      up[q] = T(::ldexp(1.0, exponent - exponent / 2));
      down[q] = T(::ldexp(1.0, exponent / 2));
    }
    vec inverse_up = 1 / up, inverse_down = 1 / down;
    for (int i = 0; i < n; i++)
      for (int j = 0; j <= i; j++) solver.A[i * ld + j] = solver.A[i * ld + j] * inverse_up * inverse_down;
    auto failed = solver.solve();
    for (int i = 0; i < n; i++) solver.d[i] = solver.d[i] * up * down;
    const int lanes = int(least64(L, problem.matrices.batch - b));
    bool good[L];
    for (int q = 0; q < lanes; q++) {
      good[q] = largest[q] == largest[q] && !failed[q];
      if (!good[q]) {
        refuse(problem, b + q, failed[q] ? kNotConverged : kNotFinite);
        continue;
      }
      problem.info[b + q] = 0;
      T* values = problem.values + (b + q) * n;
      // By insertion: QL leaves them nearly sorted. place[row] is where a row goes.
      for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && solver.d[i][q] < solver.d[order[j - 1]][q]; j--) order[j] = order[j - 1];
        order[j] = i;
      }
      for (int j = 0; j < n; j++) {
        values[j] = solver.d[order[j]][q];
        place[order[j] * L + q] = j;
      }
    }
    if (!problem.vectors) return;
    for (int i = 0; i < n; i++) {  // a row of all lanes stays in the first-level cache
      const vec* row = solver.Z + i * ld;
      for (int q = 0; q < lanes; q++) {
        if (!good[q]) continue;
        const T* lane = reinterpret_cast<const T*>(row) + q;
        T* out = problem.vectors + ((b + q) * n + place[i * L + q]) * n;
        // A rotation by zero, which another lane may ask for, can change the sign of a zero: + 0 makes it
        // plain.
        for (int k = 0; k < n; k++) out[k] = lane[int64_t(k) * L] + T(0);
      }
    }
  }
};

// Whether the matrices less shift·I have Cholesky factors, for packs first … last − 1.
template <class T, int L> class Certificate {
  using S = Lanes<T, L>;
  using vec = typename S::vec;
  using mask = typename S::mask;

 public:
  static void run(const Bound<T>& problem, int64_t first, int64_t last) {
    const int n = int(problem.matrices.n), ld = n | 1;
    vec* A = static_cast<vec*>(scratch(size_t(n) * (ld + 1) * sizeof(vec)));
    for (int64_t b = first * L; b < last * L && b < problem.matrices.batch; b += L) {
      mask failed = ~mask{};
      if (A) {
        T largest[L];
        load<T, L>(problem.matrices, b, A, ld, largest);
        for (int i = 0; i < n; i++) A[i * int64_t(ld) + i] -= T(problem.shift);
        failed = factor(n, ld, A, A + size_t(n) * ld);
      }
      for (int q = 0; q < L && b + q < problem.matrices.batch; q++) problem.info[b + q] = failed[q] ? 1 : 0;
    }
  }

 private:
  // Row by row. A NaN makes a pivot NaN, which is not positive.
  static mask factor(int n, int ld, vec* A, vec* inverse) {
    mask failed{};
    for (int i = 0; i < n; i++) {
      vec *a = A + int64_t(i) * ld, square = a[i];
      int j = 0;
      for (; j + 4 <= i; j += 4) {
        const vec *r0 = A + int64_t(j) * ld, *r1 = r0 + ld, *r2 = r1 + ld, *r3 = r2 + ld;
        vec s0 = a[j], s1 = a[j + 1], s2 = a[j + 2], s3 = a[j + 3];
        for (int k = 0; k < j; k++) {
          vec x = a[k];
          s0 = S::sub(s0, x, r0[k]);
          s1 = S::sub(s1, x, r1[k]);
          s2 = S::sub(s2, x, r2[k]);
          s3 = S::sub(s3, x, r3[k]);
        }
        s0 *= inverse[j];
        s1 = S::sub(s1, s0, r1[j]) * inverse[j + 1];
        s2 = S::sub(S::sub(s2, s0, r2[j]), s1, r2[j + 1]) * inverse[j + 2];
        s3 = S::sub(S::sub(S::sub(s3, s0, r3[j]), s1, r3[j + 1]), s2, r3[j + 2]) * inverse[j + 3];
        a[j] = s0, a[j + 1] = s1, a[j + 2] = s2, a[j + 3] = s3;
        square = S::sub(S::sub(S::sub(S::sub(square, s0, s0), s1, s1), s2, s2), s3, s3);
      }
      for (; j < i; j++) {
        const vec* r = A + int64_t(j) * ld;
        vec s = a[j];
        for (int k = 0; k < j; k++) s = S::sub(s, a[k], r[k]);
        a[j] = s *= inverse[j];
        square = S::sub(square, s, s);
      }
      mask ok = (square > 0) & (square <= Limits<T>::huge);
      failed |= ~ok;
      if (!S::any(~failed)) break;
      inverse[i] = 1 / S::sqrt(ok ? square : S::fill(1));
    }
    return failed;
  }
};

}  // namespace alem::ALEM_ISA
