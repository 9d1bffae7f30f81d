#include "flotilla/core/clock.h"

#include <ctime>

namespace flotilla {
namespace {

uint64_t read_ns(clockid_t clock) {
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

uint64_t now_ns() { return read_ns(CLOCK_MONOTONIC); }

double process_cpu_seconds() {
  return static_cast<double>(read_ns(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9;
}

double process_cpu_seconds(pid_t pid) {
  clockid_t clock{};
  if (clock_getcpuclockid(pid, &clock) != 0) return 0;
  return static_cast<double>(read_ns(clock)) * 1e-9;
}

Deadline Deadline::after(double seconds) {
  return Deadline(now_ns() + static_cast<uint64_t>(seconds * 1e9));
}

uint64_t Deadline::remaining_ns() const {
  if (at_ns_ == UINT64_MAX) return UINT64_MAX;
  const uint64_t now = now_ns();
  return now >= at_ns_ ? 0 : at_ns_ - now;
}

}  // namespace flotilla
