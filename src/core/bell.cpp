#include "flotilla/core/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace flotilla {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Not FUTEX_PRIVATE: the word may be shared between processes.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000u),
                   static_cast<long>(timeout_ns % 1'000'000'000u)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout_ns == UINT64_MAX ? nullptr : &timeout,
          nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Bell::ring() {
  rings.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(rings);
}

bool Bell::wait(uint32_t heard, Patience& patience, Deadline deadline) {
  const bool in_time = spin(heard, patience.spin_ns());
  patience.learn(in_time);
  return in_time || sleep(heard, deadline);
}

bool Bell::spin(uint32_t heard, uint64_t ns) const {
  // One pause after many looks: with one after each, a hypervisor soon takes the loop for idle and
  // gives the core away for microseconds.
  constexpr int kLooksPerPause = 50;
  const uint64_t start = now_ns();
  do {
    for (int look = 0; look < kLooksPerPause; ++look) {
      if (rings.load(std::memory_order_acquire) != heard) return true;
    }
    cpu_pause();
  } while (now_ns() - start < ns);
  return false;
}

bool Bell::sleep(uint32_t heard, Deadline deadline) {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  bool rang = true;
  while (rang && rings.load(std::memory_order_seq_cst) == heard) {
    const uint64_t left = deadline.remaining_ns();
    rang = left > 0;
    if (rang) futex_wait(rings, heard, left);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return rang;
}

}  // namespace flotilla
