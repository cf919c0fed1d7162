// What a call of the library asks for, and who can do it.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace alem {

// What is written for a matrix that has no decomposition; its values and vectors are NaN.
enum : int32_t { kNotConverged = 1, kNotFinite = 2 };

// A batch of symmetric matrices, of which the lower triangles are read; strides are in elements.
template <class T> struct Matrices {
  const T* start;
  int64_t batch, n, batch_stride, row_stride, column_stride;
};

// Wanted: the eigendecompositions.
template <class T> struct Eigenproblem {
  Matrices<T> matrices;
  T* values;      // (batch, n), ascending
  T* vectors;     // (batch, n, n), an eigenvector in each row; null if they are not wanted
  int32_t* info;  // (batch): 0, kNotConverged or kNotFinite
};

// Wanted: whether all eigenvalues are greater than ``shift``.
template <class T> struct Bound {
  Matrices<T> matrices;
  double shift;
  int32_t* info;  // (batch): 0 if they are, else 1
};

// A function of a spectrum: one stage after the other, with the numbers of each in a row.
enum Stage : int32_t {
  kClamp,      // max(x, m): m
  kLog,        //
  kExp,        //
  kMultiple,   // cx: c
  kScale,      // a_i x_i: whether x are logarithms, a_1 … a_n
  kSinh,       // c s sinh(δ asinh(x/s)): c, δ, s
  kIncrement,  // Σ c_k (x_k − x_{k−1}): c_1 … c_n
  kGap,        // c x_i + Σ_j Σ_k v_k s_k tanh((x_i − x_j)/s_k)/n: c, how many k, v_k …, s_k …
};
struct Map {
  const int32_t* stages;
  int count;
  const double* numbers;
};

// Eigenvalues (batch, n) in ascending order and eigenvectors, the columns; strides are in elements.
template <class T> struct Frame {
  const T *values, *vectors;
  int64_t batch, n, batch_stride, row_stride, column_stride;
};

// Wanted: U diag(φ(x)) Uᵀ.
template <class T> struct Function {
  Frame<T> frame;
  Map map;
  T* out;  // (batch, n, n)
};

// Wanted: the derivative of that along the symmetric part of ``direction``, U (K ⊙ (UᵀGU)) Uᵀ and more.
template <class T> struct Derivative {
  Frame<T> frame;
  Map map;
  const T* direction;
  int64_t batch_stride, row_stride, column_stride;
  bool transpose;
  const T* loewner;  // K (batch, n, n) for a function that is not here; null: that of ``map``
  T* out;  // (batch, n, n), or null
  T* gradient;  // (batch, parameters) of ⟨direction, U diag(φ(x)) Uᵀ⟩ in those of the last stage, or null
  int64_t parameters;
};

// Solves packs first … last − 1 of a batch, so many matrices in each.
template <class T> struct Solver {
  int lanes;
  void (*eigh)(const Eigenproblem<T>&, int64_t first, int64_t last);
  void (*bound)(const Bound<T>&, int64_t first, int64_t last);
};

// Functions of matrices first … last − 1 of a batch.
template <class T> struct Functional {
  void (*function)(const Function<T>&, int64_t first, int64_t last);
  void (*derivative)(const Derivative<T>&, int64_t first, int64_t last);
};

// The solvers for one instruction set, the widest first; they give the same bits. Unused places are null.
struct Isa {
  const char* name;
  Solver<float> single[3];
  Solver<double> twice[3];
  Functional<float> single_functional;
  Functional<double> twice_functional;
};

// At least so many bytes, aligned for every vector, that belong to the calling thread until its next call.
void* scratch(size_t bytes);

}  // namespace alem
