#include "flotilla/core/clock.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>

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

// The kernel's table has a line for every CPU, of ticks since the machine started: user, nice,
// system, idle, iowait, irq, softirq, steal.
double machine_cpu_seconds() {
  cpu_set_t ours;
  std::ifstream table("/proc/stat");
  if (!table || sched_getaffinity(0, sizeof(ours), &ours) != 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool of_low_priority = getpriority(PRIO_PROCESS, 0) > 0;
  double ticks = 0;
  for (std::string line; std::getline(table, line);) {
    int cpu = 0;
    std::array<double, 8> t{};
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;  // the sum of all
    if (std::sscanf(line.c_str(), "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &t[0], &t[1],
                    &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) < 8) {
      continue;
    }
    if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &ours)) continue;
    ticks += t[0] + (of_low_priority ? t[1] : 0) + t[2] + t[5] + t[6] + t[7];
  }
  if (ticks == 0) return std::numeric_limits<double>::quiet_NaN();
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
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
