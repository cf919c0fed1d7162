// The work of a call on several threads: those of torch's OpenMP where the process has it, else a few of the
// library's own. It links to no OpenMP runtime: a second one beside torch's is trouble.
#pragma once

#include <cstdint>

namespace alem {

// Calls body(context, first, last) on disjoint ranges that cover 0 … count − 1, with up to ``threads``
// threads, the caller's included. Runs on the caller's alone where it is in a parallel region already, or if
// the library's own threads are busy for someone else.
void parallel(std::int64_t count, int threads, void (*body)(void*, std::int64_t, std::int64_t), void* context);

// For a process that was forked, perhaps before the first call.
void leave_openmp();

}  // namespace alem
