#include "flotilla/domains/classic/faulty.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

namespace flotilla::classic {

Faulty::Faulty(const Config& config)
    : in_reset_(config.get_text("where") == "reset"),
      fault_step_(static_cast<int>(config.get_integer("fault_step"))),
      fault_probability_(config.get_number("fault_probability")),
      sleep_ms_(config.get_number("sleep_ms")),
      slow_ms_(config.get_number("slow_ms")),
      slow_probability_(config.get_number("slow_probability")) {
  const std::string& fault = config.get_text("fault");
  if (fault == "throw") fault_ = Fault::kThrow;
  if (fault == "segv") fault_ = Fault::kSegv;
  if (fault == "abort") fault_ = Fault::kAbort;
  if (fault == "exit") fault_ = Fault::kExit;
  if (fault == "hang") fault_ = Fault::kHang;
  if (fault == "kill") fault_ = Fault::kKill;

  spec_.name = "faulty";
  spec_.obs = ObsSpace::float32({0, -1, -1, 0}, {1, 2, 1, 1});
  spec_.action = ActionSpace::discrete(3);
  spec_.has_mask = true;
  spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
  spec_.reward_low = 0;
  spec_.reward_high = 2;
}

void Faulty::sleep(double ms) {
  const auto ns = static_cast<int64_t>(ms * 1e6);
  timespec left{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

// A sanitizer would report the null pointer before the processor does.
__attribute__((no_sanitize("undefined"))) void Faulty::fail(const std::string& when) const {
  switch (fault_) {
    case Fault::kSegv: {
      int* volatile nowhere = nullptr;
      *nowhere = 1;  // NOLINT(clang-analyzer-core.NullDereference): that is the point
      break;
    }
    case Fault::kAbort:
      std::abort();
    case Fault::kExit:
      std::_Exit(7);
    case Fault::kHang:
      for (;;) sleep(10);
    case Fault::kKill:
      std::raise(SIGKILL);
      break;
    case Fault::kNone:
    case Fault::kThrow:
      break;
  }
  throw std::runtime_error("faulty: told to throw at " + when);
}

void Faulty::throw_illegal(int choice, int step) {
  throw std::invalid_argument("faulty: choice " + std::to_string(choice) +
                              " is masked out after step " + std::to_string(step));
}

}  // namespace flotilla::classic
