#include "flotilla/env/waiting.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string_view>

#include "flotilla/core/clock.h"

namespace flotilla {
namespace {

// What the scheduler knows of the thread that opened it: "<ns on a core> <ns in its queue>
// <turns>".
class Schedule {
 public:
  Schedule() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~Schedule() {
    if (file_ >= 0) close(file_);
  }
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // 0 where the system does not say.
  uint64_t queue_ns() const {
    std::array<char, 96> text{};
    const ssize_t size = file_ < 0 ? 0 : pread(file_, text.data(), text.size(), 0);
    const std::string_view line(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
    uint64_t ns = 0;
    if (const size_t space = line.find(' '); space != line.npos) {
      std::from_chars(line.data() + space + 1, line.data() + line.size(), ns);
    }
    return ns;
  }

 private:
  int file_;
};

}  // namespace

Waiting::Moment Waiting::Moment::now() {
  static const thread_local Schedule schedule;
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return {.wall_ns = now_ns(),
          .cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1'000'000'000 +
                    static_cast<uint64_t>(cpu.tv_nsec),
          .queue_ns = schedule.queue_ns(),
          .waits = usage.ru_nvcsw};
}

void Waiting::add_since(const Moment& begin) {
  const Moment end = Moment::now();
  const uint64_t wall_ns = end.wall_ns - begin.wall_ns, cpu_ns = end.cpu_ns - begin.cpu_ns;
  const uint64_t active_ns = cpu_ns + end.queue_ns - begin.queue_ns;
  worked_ns_.fetch_add(cpu_ns, std::memory_order_relaxed);
  if (end.waits == begin.waits) return;
  waited_ns_.fetch_add(wall_ns - std::min(wall_ns, active_ns), std::memory_order_relaxed);
}

bool Waiting::settle() {
  const uint64_t waited_ns = waited_ns_.load(), worked_ns = worked_ns_.load();
  waited_ns_ = waited_ns / 2;
  worked_ns_ = worked_ns / 2;
  return waited_ns > worked_ns;
}

}  // namespace flotilla
