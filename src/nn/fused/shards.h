// How the rows of a minibatch are dealt to threads, so that sums come out the same however many
// there are: in shards that depend on the minibatch alone, each with a gradient of its own, which
// are then added in their order.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "flotilla/core/thread_pool.h"
#include "flotilla/nn/fused/plan.h"

namespace flotilla::fused {

// A shard is about this many rows, and there are at most this many: enough for a thread that is
// slower than others to leave some of its own to them, and few enough to be summed quickly.
constexpr size_t kShardRows = 64;
constexpr int kMaxShards = 64;
// Where gradients of hidden layers are collected, a shard is small, for a row takes long; and what
// so many rows leave is kept at once.
constexpr size_t kTorsoShardRows = 16, kRoundRows = 2048;
// With bf16 a row takes less, and fewer rows wait longer for the weights.
constexpr size_t kBf16TorsoShardRows = kTile;
// Numbers in the gradients of all shards, at most; but so many shards are always allowed.
constexpr size_t kSlotFloats = size_t{1} << 23;
constexpr size_t kFewShards = 8;
constexpr int kMaxBundles = kMaxShards / kBundle;
static_assert(kMaxBundles >= kBundle);
// Where threads have fewer shards each, the one that ends last keeps the others waiting for much of
// their time. Then shards are cut into pieces, which anyone may do, one after the other.
constexpr int kManyShards = 8, kMostPieces = 4;
// Gradients of a bundle, in floats, that a core's own cache holds while its pieces take turns.
constexpr size_t kTurnFloats = size_t{1} << 17;

// slot: numbers in the gradient of a shard.
inline int shard_count(size_t rows, size_t shard_rows, size_t slot) {
  const size_t most = std::clamp<size_t>(kSlotFloats / slot, kFewShards, kMaxShards);
  return static_cast<int>(std::clamp<size_t>((rows + shard_rows / 2) / shard_rows, 1, most));
}

// Of a shard, each of at least one tile.
inline int piece_count(size_t rows, int shards, int threads, const Plan& plan) {
  if (threads == 1 || shards >= kManyShards * threads) return 1;
  if (plan.has_torso() || kBundle * plan.params > kTurnFloats) return 1;
  const auto tiles = rows / (static_cast<size_t>(shards) * static_cast<size_t>(plan.tile));
  return std::clamp(static_cast<int>(tiles), 1, kMostPieces);
}

// In which order pieces are begun: those of a bundle's shards take turns, so that a piece seldom
// waits for the one before it.
struct Shards {
  int count = 1, pieces = 1;  // pieces: of each

  bool are_bundled() const { return count > kBundle; }
  int bundles() const { return (count + kBundle - 1) / kBundle; }
  int bundle_size(int bundle) const { return std::min(kBundle, count - bundle * kBundle); }

  // What is done by one thread; some behind the last shard are empty.
  int items() const { return bundles() * kBundle * pieces; }
  int neighbours() const { return pieces == 1 ? 1 : kBundle * pieces; }
  int shard(int item) const { return item / (kBundle * pieces) * kBundle + item % kBundle; }
  int piece(int item) const { return item % (kBundle * pieces) / kBundle; }
};

// Rows of a shard, and the places of what they leave (see DenseRows).
struct PlacedShard {
  Span rows, places;
};

// Of sequences of so many rows, each shard at the next multiple of `unit` places.
inline std::vector<PlacedShard> place_shards(int sequences, int length, int count, int unit) {
  std::vector<PlacedShard> shards;
  int end = 0;
  for (int s = 0; s < count; ++s) {
    const Span own = part_of({0, sequences}, s, count);
    const int begin = end;
    end += padded(own.size() * length, unit);
    shards.push_back({{own.begin * length, own.end * length}, {begin, end}});
  }
  return shards;
}

// The turn of a piece within its shard.
class Turn {
 public:
  Turn(std::atomic<int>& done, int piece) : done_(done) {
    while (done_.load(std::memory_order_acquire) < piece) std::this_thread::yield();
  }
  ~Turn() { done_.fetch_add(1, std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<int>& done_;
};

}  // namespace flotilla::fused
