// A few threads that wait for work. The library has its own because a second OpenMP runtime in one
// process with torch's is trouble.
#pragma once

#include <cstdint>

namespace alem {

// Calls body(context, first, last) on disjoint ranges that cover 0 … count − 1, with up to ``threads``
// threads, the caller's included. Runs on the caller's alone if the pool is busy for someone else.
void parallel(std::int64_t count, int threads, void (*body)(void*, std::int64_t, std::int64_t), void* context);

}  // namespace alem
