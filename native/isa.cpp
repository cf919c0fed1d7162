// Compiled once for each instruction set, with ALEM_ISA its name and ALEM_WIDTH the bytes of a register.
#include "batch.h"
#include "spectral.h"

namespace alem {

#define ALEM_TEXT_(x) #x
#define ALEM_TEXT(x) ALEM_TEXT_(x)
#define ALEM_JOIN_(a, b) a##b
#define ALEM_JOIN(a, b) ALEM_JOIN_(a, b)

namespace ALEM_ISA {

template <class T, int kBytes> constexpr Solver<T> solver() {
  if constexpr (kBytes >= 16) {
    constexpr int kLanes = kBytes / int(sizeof(T));
    return {kLanes, &Packs<T, kLanes>::run, &Certificate<T, kLanes>::run};
  }
  return {0, nullptr, nullptr};
}

template <class T> constexpr Functional<T> functional() {
  using Whole = Spectral<T, ALEM_WIDTH / int(sizeof(T))>;
  return {&Whole::run, &Whole::run};
}

}  // namespace ALEM_ISA

extern const Isa ALEM_JOIN(isa_, ALEM_ISA) = {
    ALEM_TEXT(ALEM_ISA),
    {ALEM_ISA::solver<float, ALEM_WIDTH>(), ALEM_ISA::solver<float, ALEM_WIDTH / 2>(),
     ALEM_ISA::solver<float, ALEM_WIDTH / 4>()},
    {ALEM_ISA::solver<double, ALEM_WIDTH>(), ALEM_ISA::solver<double, ALEM_WIDTH / 2>(),
     ALEM_ISA::solver<double, ALEM_WIDTH / 4>()},
    ALEM_ISA::functional<float>(),
    ALEM_ISA::functional<double>(),
};

}  // namespace alem
