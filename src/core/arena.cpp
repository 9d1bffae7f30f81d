#include "flotilla/core/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

[[noreturn]] void too_large(const std::string& name) {
  throw Error(ErrorCode::kUsage, "field '" + name + "' is larger than any memory");
}

std::byte* map(size_t bytes, int flags, int fd) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) {
    throw_errno(ErrorCode::kInternal, "cannot map " + human_bytes(bytes) + " of memory");
  }
  return static_cast<std::byte*>(base);
}

// Reserves every page now: a shortage is an error here and not a SIGBUS in the middle of a step.
int reserve_shared(size_t bytes) {
  const int lowest = memfd_create("flotilla", MFD_CLOEXEC);
  // Clear of stdin, stdout and stderr, which may be closed here and are set anew in workers.
  const int fd = lowest < 0 ? -1 : fcntl(lowest, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (fd < 0) throw_errno(ErrorCode::kInternal, "cannot create shared memory");
  close(lowest);
  int refusal = EINTR;
  while (refusal == EINTR) refusal = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (refusal != 0) {
    close(fd);
    throw Error(ErrorCode::kInternal,
                "the environments need " + human_bytes(bytes) +
                    " of shared memory, and the system gave none: " + reason_of(refusal));
  }
  return fd;
}

}  // namespace

size_t ArenaLayout::padded_row(const std::string& name, size_t columns, size_t element) {
  size_t row = 0;
  if (__builtin_mul_overflow(columns, element, &row) || row > SIZE_MAX - kRowAlignment) {
    too_large(name);
  }
  return round_up(row, kRowAlignment);
}

size_t ArenaLayout::reserve(const std::string& name, size_t rows, size_t stride) {
  size_t size = 0, end = 0;
  if (__builtin_mul_overflow(rows, stride, &size) || __builtin_add_overflow(bytes_, size, &end)) {
    too_large(name);
  }
  entries_.push_back({name, size});
  const size_t offset = bytes_;
  bytes_ = end;
  return offset;
}

std::string ArenaLayout::describe() const {
  std::vector<Entry> sorted = entries_;
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &Entry::bytes);
  std::vector<std::string> parts;
  parts.reserve(sorted.size());
  for (const Entry& entry : sorted) parts.push_back(entry.name + " " + human_bytes(entry.bytes));
  return join(parts, ", ");
}

Arena::Arena(const ArenaLayout& layout, Backing backing)
    : bytes_(std::max(layout.bytes(), kRowAlignment)) {
  require_memory(bytes_, "the batch of environments (" + layout.describe() + ")");
  if (backing == Backing::kPrivate) {
    base_ = map(bytes_, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    // Learners read rows in any order: of small pages, the CPU forgets where they lie. An advice.
    madvise(base_, bytes_, MADV_HUGEPAGE);
    return;
  }
  fd_ = reserve_shared(bytes_);
  try {
    base_ = map(bytes_, MAP_SHARED, fd_);
  } catch (...) {
    close(fd_);
    throw;
  }
}

Arena::Arena(int fd, size_t bytes) : base_(map(bytes, MAP_SHARED, fd)), bytes_(bytes) {}

Arena::~Arena() {
  munmap(base_, bytes_);
  if (fd_ >= 0) close(fd_);
}

bool Arena::contains(const void* start, size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(start);
  return at >= base_ && bytes <= bytes_ && at <= base_ + (bytes_ - bytes);
}

}  // namespace flotilla
