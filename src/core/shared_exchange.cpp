#include "flotilla/core/shared_exchange.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "flotilla/core/error.h"
#include "flotilla/core/thread_pool.h"

namespace flotilla {
namespace {

constexpr double kGlance_s = 0.1;

struct Layout : ArenaLayout {
  explicit Layout(int size) {
    const auto ranks = static_cast<size_t>(size);
    mark = add<uint64_t>("mark", 1, 1);
    bells = add<Bell>("bells", ranks, 1);
    pages = add<std::byte>("pages", 2 * ranks, SharedExchange::kPageBytes);
  }
  FieldId<uint64_t> mark;
  FieldId<Bell> bells;
  FieldId<std::byte> pages;
};

// Memory of another size would end this process when it is touched.
int checked(int fd, size_t bytes) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || static_cast<size_t>(facts.st_size) != bytes) {
    throw Error(ErrorCode::kInternal, "the shared memory is not that of these processes");
  }
  return fd;
}

// Calls visit(first, count) for pieces of a page at most.
template <class Visit>
void for_each_page(size_t bytes, const Visit& visit) {
  for (size_t first = 0; first < bytes; first += SharedExchange::kPageBytes) {
    visit(first, std::min(SharedExchange::kPageBytes, bytes - first));
  }
}

}  // namespace

SharedExchange::SharedExchange(int rank, int size)
    : rank_(rank),
      size_(size),
      arena_(Layout(size), Arena::Backing::kShared),
      mark_(arena_.view(Layout(size).mark)),
      bells_(arena_.view(Layout(size).bells)),
      pages_(arena_.view(Layout(size).pages)) {
  std::random_device entropy;
  *mark_.row(0) = uint64_t{entropy()} << 32 | entropy();
}

SharedExchange::SharedExchange(int rank, int size, int fd)
    : rank_(rank),
      size_(size),
      arena_(checked(fd, Layout(size).bytes()), Layout(size).bytes()),
      mark_(arena_.view(Layout(size).mark)),
      bells_(arena_.view(Layout(size).bells)),
      pages_(arena_.view(Layout(size).pages)) {}

std::byte* SharedExchange::page(int rank) const {
  return pages_.row(2 * static_cast<size_t>(rank) + step_ % 2);
}

void SharedExchange::await(int rank, uint32_t step, const Glance& glance) {
  while (true) {
    const uint32_t heard = bell(rank).heard();
    if (static_cast<int32_t>(heard - step) >= 0) return;
    if (!bell(rank).wait(heard, patience_, Deadline::after(kGlance_s))) glance();
  }
}

void SharedExchange::write(std::span<const std::byte> bytes, const Glance& glance) {
  for (int r = 0; r < size_; ++r) await(r, step_, glance);
  ++step_;
  std::memcpy(page(rank_), bytes.data(), bytes.size());
  bell(rank_).ring();
}

void SharedExchange::pass() {
  ++step_;
  bell(rank_).ring();
}

const std::byte* SharedExchange::read(int rank, const Glance& glance) {
  await(rank, step_, glance);
  return page(rank);
}

void SharedExchange::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                const Glance& glance) {
  for_each_page(mine.size(), [&](size_t first, size_t count) {
    write(mine.subspan(first, count), glance);
    for (int r = 0; r < size_; ++r) {
      std::byte* to = all.data() + static_cast<size_t>(r) * mine.size() + first;
      std::memcpy(to, read(r, glance), count);
    }
  });
}

void SharedExchange::broadcast(std::span<std::byte> bytes, int from, const Glance& glance) {
  for_each_page(bytes.size(), [&](size_t first, size_t count) {
    if (rank_ == from) return write(bytes.subspan(first, count), glance);
    pass();
    std::memcpy(bytes.data() + first, read(from, glance), count);
  });
}

// Each rank adds up a part of a page, and has the sums of the others from them.
void SharedExchange::all_reduce(std::span<float> numbers, const Glance& glance) {
  for_each_page(numbers.size_bytes(), [&](size_t first_byte, size_t bytes) {
    const std::span<float> some =
        numbers.subspan(first_byte / sizeof(float), bytes / sizeof(float));
    const auto part = [&](int rank) {
      const Span own = part_of({0, static_cast<int>(some.size())}, rank, size_);
      return some.subspan(static_cast<size_t>(own.begin), static_cast<size_t>(own.size()));
    };
    const std::span<float> own = part(rank_);
    write(std::as_bytes(some), glance);
    const ptrdiff_t at = own.data() - some.data();
    std::ranges::fill(own, 0.0F);
    for (int r = 0; r < size_; ++r) {
      const auto* from = reinterpret_cast<const float*>(read(r, glance)) + at;
      for (size_t i = 0; i < own.size(); ++i) own[i] += from[i];
    }
    write(std::as_bytes(own), glance);
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) std::memcpy(part(r).data(), read(r, glance), part(r).size_bytes());
    }
  });
}

}  // namespace flotilla
