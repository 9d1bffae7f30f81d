// A bell is how one side tells another, in the same or another process, that something changed.
//
// The waiter notes how often the bell has rung, looks whether what it waits for is already there,
// and if not waits for the next ring: first spinning for up to 0.5 ms, if that has paid off lately,
// then asleep in the kernel (futex). Nobody burns a core while idle, and a ring costs a system call
// only when somebody sleeps.
//
// Lives in ordinary or in shared memory (no pointers inside). A process that dies asleep leaves
// `sleepers` too high; that costs a needless system call per ring, nothing else.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "flotilla/core/clock.h"

namespace flotilla {

// One waiter's experience with spinning. A short wait is cheaper to spin through than to sleep
// through, unless the other side needs this very core to get on; then every spin is lost time. So
// spinning lives on credit: a spin that was rewarded earns about what the sleep would have cost, a
// spin in vain costs its time. Without credit the waiter sleeps, and saves up for another try.
class Patience {
 public:
  uint64_t spin_ns() {
    spin_ns_ = credit_ns_ < kTryNs ? kShortNs : std::min(credit_ns_, kLongNs);
    return spin_ns_;
  }
  void learn(bool rang_in_time) {
    if (rang_in_time) {
      credit_ns_ = std::min(credit_ns_ + kRewardNs, kMostNs);
    } else {
      credit_ns_ -= std::min(credit_ns_, spin_ns_ == kShortNs ? 0 : spin_ns_);
      credit_ns_ += kSavingNs;
    }
  }

 private:
  static constexpr uint64_t kShortNs = 300, kLongNs = 500'000;
  static constexpr uint64_t kTryNs = 50'000, kMostNs = 1'000'000;
  static constexpr uint64_t kRewardNs = 5'000, kSavingNs = 500;
  uint64_t credit_ns_ = kMostNs, spin_ns_ = 0;
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
