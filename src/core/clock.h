// Time: a monotonic clock, deadlines, and CPU time.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace flotilla {

uint64_t now_ns();  // monotonic
inline double seconds_since(uint64_t start_ns) {
  return static_cast<double>(now_ns() - start_ns) * 1e-9;
}

double process_cpu_seconds();           // of this process, all threads
double process_cpu_seconds(pid_t pid);  // of another one; 0 when it is gone

// CPU seconds that all programs together have used, since the machine started, of the CPUs that
// this process may use; what the host of a virtual machine took counts as well, programs of lower
// priority do not. NaN where the system does not say.
double machine_cpu_seconds();

class Deadline {
 public:
  static Deadline after(double seconds);
  static Deadline never() { return Deadline(UINT64_MAX); }

  bool passed() const { return at_ns_ != UINT64_MAX && now_ns() >= at_ns_; }
  uint64_t remaining_ns() const;  // UINT64_MAX: never

 private:
  explicit Deadline(uint64_t at_ns) : at_ns_(at_ns) {}
  uint64_t at_ns_;
};

}  // namespace flotilla
