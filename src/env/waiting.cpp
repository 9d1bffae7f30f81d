#include "flotilla/env/waiting.h"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>

#include "flotilla/core/clock.h"

namespace flotilla {

Waiting::Moment Waiting::Moment::now() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return {.wall_ns = now_ns(),
          .cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000 +
                    static_cast<uint64_t>(cpu.tv_nsec),
          .waits = usage.ru_nvcsw};
}

void Waiting::add_since(const Moment& begin) {
  const Moment end = Moment::now();
  const uint64_t wall_ns = end.wall_ns - begin.wall_ns, cpu_ns = end.cpu_ns - begin.cpu_ns;
  worked_ns_.fetch_add(cpu_ns, std::memory_order_relaxed);
  if (end.waits == begin.waits) return;
  waited_ns_.fetch_add(wall_ns - std::min(wall_ns, cpu_ns), std::memory_order_relaxed);
}

bool Waiting::settle() {
  const uint64_t waited_ns = waited_ns_.load(), worked_ns = worked_ns_.load();
  waited_ns_ = waited_ns / 2;
  worked_ns_ = worked_ns / 2;
  return waited_ns > worked_ns;
}

}  // namespace flotilla
