#include "flotilla/core/refusal.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <typeinfo>
#include <vector>

#include "flotilla/core/text.h"

namespace flotilla {
namespace {

using Resource = decltype(RLIMIT_AS);

// Enough for malloc(), which takes a MiB at a time where the heap cannot grow.
constexpr size_t kReserveBytes = size_t{4} << 20u;

std::atomic<void*> g_reserve{nullptr};
std::atomic<bool> g_short{false};
std::terminate_handler g_terminate_before = nullptr;

std::optional<uint64_t> limit_of(Resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// " (limit: 8 processes and threads, 43.9 MiB of memory)", or nothing.
std::string limits_of(std::initializer_list<Resource> resources) {
  std::vector<std::string> limits;
  for (const Resource resource : resources) {
    const std::optional<uint64_t> limit = limit_of(resource);
    if (!limit) continue;
    if (resource == RLIMIT_NPROC) {
      limits.push_back(std::to_string(*limit) + " processes and threads of this user");
    } else if (resource == RLIMIT_NOFILE) {
      limits.push_back(std::to_string(*limit) + " open files");
    } else {
      limits.push_back(human_bytes(*limit) + (resource == RLIMIT_FSIZE ? " a file" : " of memory"));
    }
  }
  return limits.empty() ? "" : " (limit: " + join(limits, ", ") + ")";
}

bool is_thread_refusal(const std::system_error& error) {
  return error.code() == std::errc::resource_unavailable_try_again;
}

// A new handler. The allocation that failed is not tried again: what asked for it could go on for
// ever, and the reserve is for the way out.
void on_failed_allocation() {
  g_short.store(true);
  if (void* reserve = g_reserve.exchange(nullptr)) munmap(reserve, kReserveBytes);
  throw std::bad_alloc();
}

bool ends_for_want_of_memory() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return g_short.load() || (type != nullptr && *type == typeid(std::bad_alloc));
}

// Allocates nothing.
[[noreturn]] void on_terminate() {
  if (!ends_for_want_of_memory()) {
    g_terminate_before();
    std::abort();
  }
  char text[128] = "flotilla: out of memory\n";
  int size = static_cast<int>(sizeof("flotilla: out of memory\n")) - 1;
  if (const std::optional<uint64_t> limit = limit_of(RLIMIT_AS)) {
    size = std::snprintf(text, sizeof(text), "flotilla: out of memory (limit: %llu KiB)\n",
                         static_cast<unsigned long long>(*limit / 1024));
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, static_cast<size_t>(size));
  _exit(exit_status(ErrorCode::kInternal));
}

}  // namespace

std::string reason_of(int error) {
  const std::string text = std::generic_category().message(error);
  switch (error) {
    case ENOMEM:
      return text + limits_of({RLIMIT_AS, RLIMIT_DATA});
    case EAGAIN:  // of threads and processes
      return text + limits_of({RLIMIT_NPROC, RLIMIT_AS});
    case EMFILE:
      return text + limits_of({RLIMIT_NOFILE});
    case EFBIG:
      return text + limits_of({RLIMIT_FSIZE});
    default:
      return text;
  }
}

std::string out_of_memory() { return "out of memory" + limits_of({RLIMIT_AS, RLIMIT_DATA}); }

bool is_refusal(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    return error->code() == ErrorCode::kInternal;
  }
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception)) {
    return is_thread_refusal(*error);
  }
  return dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
}

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (!is_refusal(exception)) return {ErrorCode::kInternal, exception.what()};
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return {ErrorCode::kInternal, out_of_memory()};
  }
  return {ErrorCode::kInternal, "cannot start a thread: " + reason_of(EAGAIN)};
}

void prepare_for_memory_shortage() {
  void* reserve = mmap(nullptr, kReserveBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_reserve.store(reserve == MAP_FAILED ? nullptr : reserve);
  std::set_new_handler(on_failed_allocation);
  g_terminate_before = std::set_terminate(on_terminate);
}

}  // namespace flotilla
