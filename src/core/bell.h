// A bell is how one side tells another, in the same or another process, that something changed.
//
// The waiter notes how often the bell has rung, looks whether what it waits for is already there,
// and if not waits for the next ring: first spinning for up to 0.1 ms, if that has paid off lately,
// then asleep in the kernel (futex). Nobody burns a core while idle, and a ring costs a
// system call only when somebody sleeps.
//
// Lives in ordinary or in shared memory (no pointers inside). A process that dies asleep leaves
// `sleepers` too high; that costs a needless system call per ring, nothing else.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/clock.h"

namespace flotilla {

// One waiter's experience with spinning. A wait of a few microseconds is cheaper to spin through
// than to sleep through, unless the other side needs this very core to get on; then every spin is
// lost time. So spin long while it works, stop after two failures, and try again now and then.
class Patience {
 public:
  uint64_t spin_ns() {
    tries_long_ = failures_ < kMaxFailures || ++waits_ % kWaitsPerTry == 0;
    return tries_long_ ? kLongNs : kShortNs;
  }
  void learn(bool rang_in_time) {
    if (rang_in_time) {
      failures_ = 0;
    } else if (tries_long_ && failures_ < kMaxFailures) {
      ++failures_;
    }
  }

 private:
  static constexpr uint64_t kLongNs = 100'000, kShortNs = 300;
  static constexpr int kMaxFailures = 2, kWaitsPerTry = 64;
  int failures_ = 0, waits_ = 0;
  bool tries_long_ = true;
};

struct alignas(64) Bell {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleepers{0};

  uint32_t heard() const { return rings.load(std::memory_order_acquire); }

  // Publishes everything written before it, and wakes all waiters.
  void ring();

  // Returns true once the bell has rung since `heard`, false when the deadline passed first.
  bool wait(uint32_t heard, Patience& patience, Deadline deadline);

 private:
  bool spin(uint32_t heard, uint64_t ns) const;
  bool sleep(uint32_t heard, Deadline deadline);
};

}  // namespace flotilla
