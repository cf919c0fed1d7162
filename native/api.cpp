// The C interface, called from Python through ctypes.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "pool.h"
#include "problem.h"

namespace alem {

#if defined(__x86_64__)
extern const Isa isa_avx2, isa_avx512;
#endif
#if defined(__aarch64__)  // where every machine has it
extern const Isa isa_neon;
static const Isa& isa_least = isa_neon;
#else
extern const Isa isa_baseline;
static const Isa& isa_least = isa_baseline;
#endif

namespace {

// The instruction sets of this machine, the widest first; null ends the list.
const Isa* const* available() {
  static const Isa* list[4];
  static const bool filled = [] {
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
    if (avx2 && avx512) list[count++] = &isa_avx512;
    if (avx2) list[count++] = &isa_avx2;
#endif
    list[count] = &isa_least;
    return true;
  }();
  (void)filled;
  return list;
}

const Solver<float>* solvers_of(const Isa& isa, float) { return isa.single; }
const Solver<double>* solvers_of(const Isa& isa, double) { return isa.twice; }

// The width that ends first: wide packs unless there are too few of them to keep the threads busy.
template <class T> const Solver<T>& fastest(const Solver<T>* solvers, int64_t batch, int threads) {
  const double kPackTime[3] = {1, 0.6, 0.5};  // half as many lanes take more than half the time
  const Solver<T>* best = solvers;
  double least = 0;
  for (int i = 0; i < 3 && solvers[i].lanes; i++) {
    int64_t packs = (batch + solvers[i].lanes - 1) / solvers[i].lanes;
    double time = double((packs + threads - 1) / threads) * kPackTime[i];
    if (i == 0 || time < least) {
      least = time;
      best = &solvers[i];
    }
  }
  return *best;
}

template <class T> const Solver<T>& of_width(const Solver<T>* solvers, int lanes) {
  int i = 0;
  while (i < 2 && solvers[i].lanes > lanes && solvers[i + 1].lanes) i++;
  return solvers[i];
}

// How a problem is solved: with so many threads; ``isa``, one of alem_isa, may be null and
// ``lanes`` 0, for the best there are.
struct Choice {
  int threads;
  const char* isa;
  int lanes;
};

// The member of a solver that a problem is for.
template <class T> auto part_for(const Solver<T>& solver, const Eigenproblem<T>&) { return solver.eigh; }
template <class T> auto part_for(const Solver<T>& solver, const Bound<T>&) { return solver.bound; }

// The instruction set of that name, or the widest.
const Isa& isa_called(const char* name) {
  const Isa* const* list = available();
  while (name && list[1] && std::strcmp((*list)->name, name)) list++;
  return **list;
}

// Runs a problem in so many parts.
template <class P>
void run(const P& problem, void (*body)(const P&, int64_t, int64_t), int64_t parts, int threads) {
  struct Work {
    const P* problem;
    void (*body)(const P&, int64_t, int64_t);
  } work{&problem, body};
  parallel(parts, threads,
           [](void* context, int64_t first, int64_t last) {
             auto* work = static_cast<Work*>(context);
             work->body(*work->problem, first, last);
           },
           &work);
}

template <class T, class P> void solve(const P& problem, Choice choice) {
  const Matrices<T>& matrices = problem.matrices;
  if (matrices.n <= 0) std::fill_n(problem.info, matrices.batch, 0);
  if (matrices.batch <= 0 || matrices.n <= 0) return;
  const Solver<T>* solvers = solvers_of(isa_called(choice.isa), T());
  int threads = std::max(choice.threads, 1);
  const Solver<T>& solver = choice.lanes ? of_width(solvers, choice.lanes) : fastest(solvers, matrices.batch, threads);
  run(problem, part_for(solver, problem), (matrices.batch + solver.lanes - 1) / solver.lanes, threads);
}

const Functional<float>& functional_of(const Isa& isa, float) { return isa.single_functional; }
const Functional<double>& functional_of(const Isa& isa, double) { return isa.twice_functional; }
template <class T> auto part_for(const Functional<T>& f, const Function<T>&) { return f.function; }
template <class T> auto part_for(const Functional<T>& f, const Derivative<T>&) { return f.derivative; }

template <class T, class P> void apply(const P& problem, int threads, const char* isa) {
  const Frame<T>& frame = problem.frame;
  if (frame.batch <= 0 || frame.n <= 0) return;
  // Below some tens of microseconds of work a second thread comes too late.
  if (double(frame.batch) * frame.n * frame.n * frame.n < 1e5) threads = 1;
  run(problem, part_for(functional_of(isa_called(isa), T()), problem), frame.batch, std::max(threads, 1));
}

struct Memory {
  void* start = nullptr;
  size_t size = 0;
  ~Memory() { std::free(start); }
};

}  // namespace

void* scratch(size_t bytes) {
  thread_local Memory memory;
  if (memory.size < bytes) {
    std::free(memory.start);
    memory.size = (bytes + 4095) / 4096 * 4096;
    memory.start = std::aligned_alloc(64, memory.size);
    if (!memory.start) memory.size = 0;
  }
  return memory.start;
}

}  // namespace alem

#define ALEM_EXPORT extern "C" __attribute__((visibility("default")))

#define ALEM_MATRICES(T) \
  const T *start, int64_t batch, int64_t n, int64_t batch_stride, int64_t row_stride, int64_t column_stride
#define ALEM_MATRICES_GIVEN \
  { start, batch, n, batch_stride, row_stride, column_stride }

#define ALEM_FRAME(T)                                                                       \
  const T *values, const T *vectors, int64_t batch, int64_t n, int64_t batch_stride, int64_t row_stride, \
      int64_t column_stride
#define ALEM_FRAME_GIVEN \
  { values, vectors, batch, n, batch_stride, row_stride, column_stride }
#define ALEM_MAP const int32_t *stages, int count, const double *numbers
#define ALEM_MAP_GIVEN \
  { stages, count, numbers }

#define ALEM_FUNCTIONS(SUFFIX, T)                                                                       \
  ALEM_EXPORT void alem_eigh_##SUFFIX(ALEM_MATRICES(T), T* values, T* vectors, int32_t* info,            \
                                      int threads, const char* isa, int lanes) {                        \
    alem::solve<T>(alem::Eigenproblem<T>{ALEM_MATRICES_GIVEN, values, vectors, info}, {threads, isa, lanes}); \
  }                                                                                                     \
  ALEM_EXPORT void alem_bound_##SUFFIX(ALEM_MATRICES(T), double shift, int32_t* info, int threads,       \
                                       const char* isa, int lanes) {                                    \
    alem::solve<T>(alem::Bound<T>{ALEM_MATRICES_GIVEN, shift, info}, {threads, isa, lanes});             \
  }                                                                                                     \
  ALEM_EXPORT void alem_function_##SUFFIX(ALEM_FRAME(T), ALEM_MAP, T* out, int threads, const char* isa) { \
    alem::apply<T>(alem::Function<T>{ALEM_FRAME_GIVEN, ALEM_MAP_GIVEN, out}, threads, isa);               \
  }                                                                                                     \
  ALEM_EXPORT void alem_derivative_##SUFFIX(ALEM_FRAME(T), ALEM_MAP, const T* direction, int64_t step,    \
                                            int64_t row_step, int64_t column_step, int transpose, const T* loewner, T* out, \
                                            T* gradient, int64_t parameters, int threads,               \
                                            const char* isa) {                                          \
    alem::apply<T>(alem::Derivative<T>{ALEM_FRAME_GIVEN, ALEM_MAP_GIVEN, direction, step, row_step,       \
                                       column_step, transpose != 0, loewner, out, gradient, parameters},         \
                   threads, isa);                                                                       \
  }

ALEM_FUNCTIONS(f32, float)
ALEM_FUNCTIONS(f64, double)

// The name of the i-th instruction set that can be used, the one used first; null after the last.
ALEM_EXPORT const char* alem_isa(int i) {
  const alem::Isa* const* list = alem::available();
  for (; i > 0 && *list; i--) list++;
  return *list ? (*list)->name : nullptr;
}

// In a forked process: the library's own threads from now on.
ALEM_EXPORT void alem_leave_openmp() { alem::leave_openmp(); }
