#include "pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#include <pthread.h>
#endif

namespace alem {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kSpins = 2000;  // tens of microseconds: the next call of a training step is near

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct Pool {
  std::mutex busy;  // held by the caller whose work is being done
  std::mutex lock;
  std::condition_variable wake;
  std::vector<std::thread> workers;

  // The round in the upper half and the next item of it in the lower. Whoever moves it on owns the item,
  // and the caller stays until all items are done: only then do count, body and context change.
  std::atomic<std::uint64_t> ticket{0};
  std::atomic<std::uint32_t> count{0}, done{0};
  std::atomic<int> members{0};  // workers that take part
  void (*body)(void*, std::int64_t, std::int64_t) = nullptr;
  void* context = nullptr;

  static std::uint64_t ticket_of(std::uint32_t round, std::uint32_t item) {
    return std::uint64_t(round) << 32 | item;
  }
  static std::uint32_t round_of(std::uint64_t ticket) { return std::uint32_t(ticket >> 32); }

  void take(std::uint32_t round) {
    std::uint64_t now = ticket.load(std::memory_order_acquire);
    while (round_of(now) == round && std::uint32_t(now) < count.load(std::memory_order_acquire)) {
      if (!ticket.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) continue;
      body(context, std::uint32_t(now), std::int64_t(std::uint32_t(now)) + 1);
      done.fetch_add(1, std::memory_order_acq_rel);
      now = ticket.load(std::memory_order_acquire);
    }
  }

  void work(int index) {
    std::uint32_t seen = 0;
    auto news = [&] { return round_of(ticket.load(std::memory_order_acquire)) != seen; };
    for (;;) {
      for (int spin = 0; spin < kSpins && !news(); spin++) relax();
      if (!news()) {
        std::unique_lock<std::mutex> hold(lock);
        wake.wait(hold, news);
      }
      seen = round_of(ticket.load(std::memory_order_acquire));
      if (index < members.load(std::memory_order_acquire)) take(seen);
    }
  }
};

// Never destroyed: its threads outlive static destructors. After a fork the child has no threads and its
// locks may be held by none, so it begins anew.
Pool* pool = nullptr;
std::once_flag once;

void renew() { pool = new Pool; }

// The threads of torch's OpenMP, where this process has it: they are awake in the middle of a step, when a
// second pool's would have to be woken, and would then compete with them for the same cores. Not after a
// fork, which the runtime does not survive.
using Fork = void (*)(void (*)(void*), void*, unsigned, unsigned);
Fork openmp = nullptr;

void forked() {
  openmp = nullptr;
  renew();
}

void prepare() {
  renew();
#if defined(__unix__) || defined(__APPLE__)
  openmp = reinterpret_cast<Fork>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  pthread_atfork(nullptr, nullptr, forked);
#endif
}

// A range whose items the threads of a team take one by one.
struct Shared {
  std::int64_t count;
  void (*body)(void*, std::int64_t, std::int64_t);
  void* context;
  std::atomic<std::int64_t> next{0};

  static void take(void* of) {
    auto* s = static_cast<Shared*>(of);
    for (std::int64_t i; (i = s->next.fetch_add(1, std::memory_order_relaxed)) < s->count;)
      s->body(s->context, i, i + 1);
  }
};

}  // namespace

void leave_openmp() {
  std::call_once(once, prepare);
  openmp = nullptr;
}

void parallel(std::int64_t count, int threads, void (*body)(void*, std::int64_t, std::int64_t), void* context) {
  std::call_once(once, prepare);
  Pool& p = *pool;
  int helpers = int(std::min<std::int64_t>({std::int64_t(threads), count, kMaxThreads})) - 1;
  if (helpers >= 1 && openmp) {
    Shared shared{count, body, context};
    // As many as torch asks for, whatever there is for them to do: the runtime ends those that a smaller team
    // leaves out, and the next operation has to make them anew.
    openmp(Shared::take, &shared, unsigned(threads), 0);
    return;
  }
  std::unique_lock<std::mutex> mine(p.busy, std::defer_lock);
  if (helpers < 1 || count >= UINT32_MAX || !mine.try_lock()) {
    body(context, 0, count);
    return;
  }
  try {
    while (int(p.workers.size()) < helpers) {
      int index = int(p.workers.size());
      p.workers.emplace_back([&p, index] { p.work(index); });
    }
  } catch (...) {  // no more threads to be had
    helpers = int(p.workers.size());
  }
  // The last round is closed first: a worker that is late for it must find no item in it.
  std::uint32_t round = Pool::round_of(p.ticket.load(std::memory_order_relaxed));
  p.ticket.store(Pool::ticket_of(round, UINT32_MAX), std::memory_order_seq_cst);
  p.body = body;
  p.context = context;
  p.members.store(helpers, std::memory_order_relaxed);
  p.done.store(0, std::memory_order_relaxed);
  p.count.store(std::uint32_t(count), std::memory_order_release);
  {
    std::lock_guard<std::mutex> hold(p.lock);
    p.ticket.store(Pool::ticket_of(round + 1, 0), std::memory_order_release);
  }
  p.wake.notify_all();
  p.take(round + 1);
  while (p.done.load(std::memory_order_acquire) != std::uint32_t(count)) relax();
}

}  // namespace alem
