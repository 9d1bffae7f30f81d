// Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011).
//
// A generator is a value: (seed, stream, position). Two generators with the same three numbers
// give the same numbers, whichever thread or process asks, so a run does not depend on who did
// the work. Streams are an env index or a purpose; see stream_of().
//
// Thread safety: none; every env owns its generator.
// Determinism: integers and uniforms are exact on every platform; normal() uses the C library's
// log, sqrt, sin and cos.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace flotilla {

constexpr int kPhiloxRounds = 10;
constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
using PhiloxKey = std::array<uint32_t, 2>;

inline void next_round_key(PhiloxKey& key) {
  key[0] += 0x9E3779B9;
  key[1] += 0xBB67AE85;
}

// Ten rounds of Philox4x32: a bijection of the 128-bit counter under a 64-bit key.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    next_round_key(key);
  }
  return counter;
}

// The 128 random bits of block `block` of a stream.
inline std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t stream, uint64_t block) {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                     static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// What a stream is for. Streams of different purposes never meet. REQUIRES: index < 2^48.
enum class Purpose : uint16_t {
  kEnv = 0,
  kAction = 1,
  kTest = 2,
  kPolicy = 3,   // actions a policy draws; index: step of the run
  kShuffle = 4,  // order of the rows in an update
  kInit = 5,     // first parameters; index: tensor
  kSearch = 6,   // of a search above trainings; index: trial
  kRemote = 7    // seeds of remote actors; index: the actor's number
};

constexpr uint64_t stream_of(Purpose purpose, uint64_t index) {
  return (static_cast<uint64_t>(purpose) << 48) | index;
}

// Trivially copyable: saving a generator is copying its bytes.
class Rng {
 public:
  Rng() = default;
  Rng(uint64_t seed, uint64_t stream, uint64_t position = 0) : seed_(seed), stream_(stream) {
    seek(position);
  }

  uint64_t seed() const { return seed_; }
  uint64_t stream() const { return stream_; }
  uint64_t position() const { return position_; }  // 32-bit words drawn so far

  void seek(uint64_t position) {
    position_ = position;
    if (position_ % 4 != 0) block_ = random_block(seed_, stream_, position_ / 4);
  }

  uint32_t next_u32() {
    const uint64_t word = position_ % 4;
    if (word == 0) block_ = random_block(seed_, stream_, position_ / 4);
    ++position_;
    return block_[word];
  }

  uint64_t next_u64() {
    const uint64_t low = next_u32();
    return low | (uint64_t{next_u32()} << 32);
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

  // Uniform in [low, high]; high itself only by rounding.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // Uniform in {0, ..., n - 1}, every value equally likely: Lemire, "Fast random integer
  // generation in an interval" (2019). REQUIRES: n > 0.
  uint32_t below(uint32_t n) {
    uint64_t product = uint64_t{next_u32()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t threshold = (0u - n) % n;  // 2^32 mod n
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next_u32()} * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }

  bool chance(double probability) { return uniform() < probability; }

  // Standard normal: Box and Muller (1958). Draws four words, keeps nothing back, so that the
  // state stays (seed, stream, position).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  uint64_t seed_ = 0;
  uint64_t stream_ = 0;
  uint64_t position_ = 0;
  std::array<uint32_t, 4> block_{};  // the block position_ lies in, unless position_ % 4 == 0
};

}  // namespace flotilla
