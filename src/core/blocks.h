// The envs of a run in equal blocks, which several processes share out among themselves. What is
// computed over all envs is computed block by block and put together in the order of blocks, so
// that it does not depend on who has which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "flotilla/core/collective.h"
#include "flotilla/core/thread_pool.h"

namespace flotilla {

constexpr int kMaxBlocks = 256;

// In which order the gradients of blocks are added.
enum class BlockSum : uint8_t {
  kExact,  // in that of blocks: the same bits for any number of processes
  kFast    // as the library likes: less is sent
};

class Blocks {
 public:
  // All of them in one process.
  explicit Blocks(int count = 1) : Blocks(count, alone(), BlockSum::kExact) {}
  // Shared out in the order of ranks; some have one more where they do not divide.
  // REQUIRES: not fewer than there are ranks.
  Blocks(int count, Collective& collective, BlockSum sum);

  int count() const { return count_; }  // of all processes
  Span mine() const { return mine_; }
  int own() const { return mine_.size(); }
  // Of `items` that the blocks of this process have together, those of its block number `own`.
  Span part(int items, int own) const { return part_of({0, items}, own, mine_.size()); }
  Collective& collective() const { return *collective_; }

  // As many numbers of each own block as of every other: those of all blocks, in their order.
  std::vector<double> gather(std::span<const double> of_own) const;
  // Adds up the gradients of all blocks, and the sums that are reported beside them. `gradients`
  // and `sums` hold those of the own blocks, one behind the other.
  void add_up(std::span<const float> gradients, std::span<const double> sums,
              std::span<float> gradient, std::span<double> sum);

 private:
  void add_up_exactly(std::span<const float> gradients, std::span<const double> sums,
                      std::span<float> gradient, std::span<double> sum);
  void add_up_fast(std::span<const float> gradients, std::span<const double> sums,
                   std::span<float> gradient, std::span<double> sum);
  void reduce(std::span<float> message);
  // Calls visit(bytes) for each block, in their order. REQUIRES: sent_ holds the own ones.
  template <class Visit>
  void for_gathered(size_t block_bytes, const Visit& visit) const;

  int count_;
  Collective* collective_;
  BlockSum sum_;
  Span mine_;
  // What is sent and received, kept lest every update allocates it.
  mutable std::vector<std::byte> sent_, received_;
};

// The same of values that are made of doubles.
template <class T>
std::vector<T> gathered(const Blocks& blocks, const std::vector<T>& of_own) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(double) == 0);
  const std::vector<double> numbers = blocks.gather(
      {reinterpret_cast<const double*>(of_own.data()), of_own.size() * sizeof(T) / sizeof(double)});
  std::vector<T> all(numbers.size() * sizeof(double) / sizeof(T));
  std::memcpy(static_cast<void*>(all.data()), numbers.data(), numbers.size() * sizeof(double));
  return all;
}

}  // namespace flotilla
