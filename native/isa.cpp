// Compiled once for each instruction set, with ALEM_ISA its name and ALEM_WIDTH the bytes of a register.
#include "batch.h"
#include "spectral.h"

namespace alem {

#define ALEM_TEXT_(x) #x
#define ALEM_TEXT(x) ALEM_TEXT_(x)
#define ALEM_JOIN_(a, b) a##b
#define ALEM_JOIN(a, b) ALEM_JOIN_(a, b)

template <class T, int kBytes> constexpr Solver<T> solver() {
  if constexpr (kBytes >= 16) {
    constexpr int kLanes = kBytes / int(sizeof(T));
    return {kLanes, &ALEM_ISA::Packs<T, kLanes>::run, &ALEM_ISA::Certificate<T, kLanes>::run};
  }
  return {0, nullptr, nullptr};
}

template <class T> constexpr Functional<T> functional() {
  using Whole = ALEM_ISA::Spectral<T, ALEM_WIDTH / int(sizeof(T))>;
  return {&Whole::run, &Whole::run};
}

extern const Isa ALEM_JOIN(isa_, ALEM_ISA) = {
    ALEM_TEXT(ALEM_ISA),
    {solver<float, ALEM_WIDTH>(), solver<float, ALEM_WIDTH / 2>(), solver<float, ALEM_WIDTH / 4>()},
    {solver<double, ALEM_WIDTH>(), solver<double, ALEM_WIDTH / 2>(), solver<double, ALEM_WIDTH / 4>()},
    functional<float>(),
    functional<double>(),
};

}  // namespace alem
