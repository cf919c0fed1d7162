// U diag(φ(x)) Uᵀ and its derivative, one matrix after the other.
#pragma once

#include "maps.h"

namespace alem::ALEM_ISA {

template <class T, int L> class Spectral {
  using S = Lanes<T, L>;
  using vec = typename S::vec;
  using M = Maps<T, L>;

 public:
  // F = U diag(φ(x)) Uᵀ for matrices first … last − 1.
  static void run(const Function<T>& problem, int64_t first, int64_t last) {
    Spectral s(problem.frame, problem.map);
    for (int64_t b = first; b < last; b++) {
      if (!s.memory_) {
        fill(problem, b);
        continue;
      }
      s.load_frame(b);
      s.map_.values(problem.frame.values + b * s.n_);
      for (int i = 0; i < s.n_; i++)
        for (int j = 0; j < s.stride_; j += L) s.at(s.first_, i, j) = s.at(s.rows_, i, j) * s.map_.y[i];
      product<T, L>(s.n_, s.columns_, s.first_, s.second_, true);
      s.store(s.second_, problem.out + b * s.n_ * s.n_);
    }
  }

  // DF[G] or DFᵀ[G], and the gradient of ⟨G, F⟩ in the parameters.
  static void run(const Derivative<T>& problem, int64_t first, int64_t last) {
    Spectral s(problem.frame, problem.map);
    for (int64_t b = first; b < last; b++) {
      if (s.memory_)
        s.one(problem, b);
      else
        fill(problem, b);
    }
  }

 private:
  const Frame<T>& frame_;
  const int n_, stride_;
  T* memory_;
  T *rows_, *columns_, *first_, *second_, *diagonal_;
  M map_;

  static size_t numbers(int n) { return size_t(M::padded(n)) * (4 * size_t(n) + 1); }

  Spectral(const Frame<T>& frame, const Map& map)
      : frame_(frame),
        n_(int(frame.n)),
        stride_(M::padded(n_)),
        memory_(static_cast<T*>(scratch((numbers(n_) + M::scratch(n_)) * sizeof(T)))),
        map_(map, n_, memory_ + numbers(n_)) {
    const size_t size = size_t(n_) * stride_;
    rows_ = memory_;
    columns_ = rows_ + size;
    first_ = columns_ + size;
    second_ = first_ + size;
    diagonal_ = second_ + size;
  }

  vec& at(T* A, int i, int j) const { return *reinterpret_cast<vec*>(A + size_t(i) * stride_ + j); }

  // Without memory there is no result.
  static void fill(T* start, int64_t count) {
    for (int64_t i = 0; start && i < count; i++) start[i] = Limits<T>::nan;
  }
  static void fill(const Function<T>& problem, int64_t b) {
    const int64_t square = problem.frame.n * problem.frame.n;
    fill(problem.out + b * square, square);
  }
  static void fill(const Derivative<T>& problem, int64_t b) {
    const int64_t square = problem.frame.n * problem.frame.n;
    fill(problem.out ? problem.out + b * square : nullptr, square);
    fill(problem.gradient ? problem.gradient + b * problem.parameters : nullptr, problem.parameters);
  }

  // U to columns_ and Uᵀ to rows_, with zeros up to the ends of the rows.
  void load_frame(int64_t b) {
    const T* U = frame_.vectors + b * frame_.batch_stride;
    for (int j = 0; j < n_; j++) {
      T* row = rows_ + size_t(j) * stride_;
      for (int i = 0; i < n_; i++) row[i] = columns_[size_t(i) * stride_ + j] = U[i * frame_.row_stride + j * frame_.column_stride];
      for (int i = n_; i < stride_; i++) row[i] = columns_[size_t(j) * stride_ + i] = 0;
    }
  }

  // A symmetric matrix, of which the lower triangle is there.
  void store(const T* from, T* out) const {
    for (int i = 0; i < n_; i++)
      for (int j = 0; j <= i; j++) out[size_t(i) * n_ + j] = out[size_t(j) * n_ + i] = from[size_t(i) * stride_ + j];
  }

  void one(const Derivative<T>& problem, int64_t b) {
    const T* G = problem.direction + b * problem.batch_stride;
    const T* x = frame_.values + b * n_;
    load_frame(b);
    for (int i = 0; i < n_; i++) {
      for (int j = 0; j <= i; j++) {
        T mean = T(0.5) * G[i * problem.row_stride + j * problem.column_stride] +
                 T(0.5) * G[j * problem.row_stride + i * problem.column_stride];
        first_[size_t(i) * stride_ + j] = first_[size_t(j) * stride_ + i] = mean;
      }
      for (int j = n_; j < stride_; j++) first_[size_t(i) * stride_ + j] = 0;
    }
    product<T, L>(n_, rows_, first_, second_);
    product<T, L>(n_, second_, columns_, first_);  // UᵀGU
    for (int i = 0; i < n_; i++) diagonal_[i] = first_[size_t(i) * stride_ + i];
    if (problem.gradient) map_.gradient(x, diagonal_, problem.gradient + b * problem.parameters);
    if (!problem.out) return;
    if (problem.loewner) {
      const T* K = problem.loewner + b * n_ * n_;
      for (int i = 0; i < n_; i++)
        for (int j = 0; j < n_; j++) first_[size_t(i) * stride_ + j] *= K[size_t(i) * n_ + j];
    } else {
      map_.derive(x);
      for (int i = 0; i < n_; i++)
        for (int j = 0; j < stride_; j += L) at(first_, i, j) *= at(map_.K, i, j);
    }
    if (map_.coupled)
      for (int i = 0; i < n_; i++) {
        T sum = 0;
        for (int k = 0; k < n_; k++)
          sum += diagonal_[k] * (problem.transpose ? map_.C[size_t(k) * stride_ + i] : map_.C[size_t(i) * stride_ + k]);
        first_[size_t(i) * stride_ + i] += sum;
      }
    product<T, L>(n_, first_, rows_, second_);
    product<T, L>(n_, columns_, second_, first_, true);
    store(first_, problem.out + b * n_ * n_);
  }
};

}  // namespace alem::ALEM_ISA
