// A bell is how one side tells another, in the same or another process, that something changed.
//
// The waiter notes how often the bell has rung, looks whether what it waits for is already there,
// and if not waits for the next ring: first spinning for a few microseconds, then asleep in the
// kernel (futex). Nobody burns a core while idle, and a ring costs a system call only when
// somebody sleeps.
//
// Lives in ordinary or in shared memory (no pointers inside). A process that dies asleep leaves
// `sleepers` too high; that costs a needless system call per ring, nothing else.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/clock.h"

namespace flotilla {

struct alignas(64) Bell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleepers{0};

  uint32_t heard() const { return rings.load(std::memory_order_acquire); }

  // Publishes everything written before it, and wakes all waiters.
  void ring();

  // Returns true once the bell has rung since `heard`, false when the deadline passed first.
  bool wait(uint32_t heard, int spins, Deadline deadline);
};

// How many looks at a bell to take before sleeping, for `runners` threads or processes that pass
// work to each other on this machine. One look is a CPU pause: 5 to 50 ns.
int spins_for(int runners);

void cpu_pause();

}  // namespace flotilla
