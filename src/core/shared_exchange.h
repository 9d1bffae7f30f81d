// What processes of one host tell each other through memory that all of them map: two copies and a
// ring of a bell, where a connection takes several threads and their turns.
//
// Every rank has two pages. In step n it writes page n % 2 and rings its bell for the n-th time:
// who has heard that may read it. Ringing for step n also says that all of step n - 1 was read, so
// whoever writes in step n waits for the n - 1st ring of all, and no page is written over that
// somebody still reads. More bytes than a page holds go in several steps.
//
// It notices nothing by itself: a rank that is lost is waited for until `glance` throws.
//
// Thread safety: one caller at a time. Trust: the others are processes of this program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "flotilla/core/arena.h"
#include "flotilla/core/bell.h"

namespace flotilla {

class SharedExchange {
 public:
  // Who waits calls it ten times a second; it throws where waiting has become useless.
  using Glance = std::function<void()>;

  // One rank makes the memory, the others map it by a descriptor of it. Throws Error where there is
  // no memory, or the descriptor is not that of memory for so many ranks.
  SharedExchange(int rank, int size);
  SharedExchange(int rank, int size, int fd);

  int fd() const { return arena_.fd(); }
  // Of the one that made it, by which others know that they have found the right one.
  uint64_t mark() const { return *mark_.row(0); }

  // As those of Collective. Numbers are added in the order of ranks.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const Glance& glance);
  void all_reduce(std::span<float> numbers, const Glance& glance);
  void broadcast(std::span<std::byte> bytes, int from, const Glance& glance);

  static constexpr size_t kPageBytes = size_t{1} << 18;

 private:
  void write(std::span<const std::byte> bytes, const Glance& glance);
  void pass();  // a step in which this rank writes nothing
  const std::byte* read(int rank, const Glance& glance);
  void await(int rank, uint32_t step, const Glance& glance);
  Bell& bell(int rank) const { return *bells_.row(static_cast<size_t>(rank)); }
  std::byte* page(int rank) const;  // of the present step

  const int rank_, size_;
  Arena arena_;
  Field<uint64_t> mark_;
  Field<Bell> bells_;       // by rank
  Field<std::byte> pages_;  // two of each rank
  uint32_t step_ = 0;       // may wrap
  Patience patience_;
};

}  // namespace flotilla
