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

// Solves packs first … last − 1 of a batch, so many matrices in each.
template <class T> struct Solver {
  int lanes;
  void (*eigh)(const Eigenproblem<T>&, int64_t first, int64_t last);
  void (*bound)(const Bound<T>&, int64_t first, int64_t last);
};

// The solvers for one instruction set, the widest first; they give the same bits. Unused places are null.
struct Isa {
  const char* name;
  Solver<float> single[3];
  Solver<double> twice[3];
};

// At least so many bytes, aligned for every vector, that belong to the calling thread until its next call.
void* scratch(size_t bytes);

}  // namespace alem
