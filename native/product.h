// Products of matrices that are as small as the first-level caches.
#pragma once

#include "lanes.h"

namespace alem::ALEM_ISA {

template <class T, int L, int R, int B>
void product_block(int n, int stride, const T* A, const T* X, T* out) {
  using S = Lanes<T, L>;
  using vec = typename S::vec;
  vec sum[R][B]{};
  for (int k = 0; k < n; k++) {
    vec x[B];
    for (int b = 0; b < B; b++) x[b] = *reinterpret_cast<const vec*>(X + size_t(k) * stride + b * L);
    for (int r = 0; r < R; r++) {
      vec a = S::fill(A[size_t(r) * stride + k]);
      for (int b = 0; b < B; b++) sum[r][b] = S::add(sum[r][b], a, x[b]);
    }
  }
  for (int r = 0; r < R; r++)
    for (int b = 0; b < B; b++) *reinterpret_cast<vec*>(out + size_t(r) * stride + b * L) = sum[r][b];
}

template <class T, int L, int B>
void product_columns(int n, int first, int stride, const T* A, const T* X, T* out) {
#if defined(__AVX512F__) || defined(__aarch64__)
  constexpr int R = 8;  // with B = 2 vectors, what the registers hold
#else
  constexpr int R = 4;
#endif
  int i = first;
  for (; i + R <= n; i += R)
    product_block<T, L, R, B>(n, stride, A + size_t(i) * stride, X, out + size_t(i) * stride);
  for (; i + 2 <= n; i += 2)
    product_block<T, L, 2, B>(n, stride, A + size_t(i) * stride, X, out + size_t(i) * stride);
  for (; i < n; i++) product_block<T, L, 1, B>(n, stride, A + size_t(i) * stride, X, out + size_t(i) * stride);
}

// out = AX of n×n matrices, aligned, in rows of n rounded up to whole registers; ``out`` is neither A nor X.
// If only the lower triangle is wanted, what is above it is undefined.
template <class T, int L> void product(int n, const T* A, const T* X, T* out, bool lower = false) {
  const int stride = (n + L - 1) / L * L;
  int j = 0;
  for (; j + 2 * L <= stride; j += 2 * L) product_columns<T, L, 2>(n, lower ? j : 0, stride, A, X + j, out + j);
  if (j < stride) product_columns<T, L, 1>(n, lower ? j : 0, stride, A, X + j, out + j);
}

}  // namespace alem::ALEM_ISA
