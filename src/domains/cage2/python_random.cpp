#include "flotilla/domains/cage2/python_random.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace flotilla::cage2 {

PythonRandom::PythonRandom(uint32_t seed) {
  // First a fixed filling, then the key [seed] is mixed into it.
  state_[0] = 19650218;
  for (uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253 * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
  size_t i = 1;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  const auto before = [&] { return state_[i - 1] ^ (state_[i - 1] >> 30); };
  for (size_t k = 0; k < kWords; ++k) {
    state_[i] = (state_[i] ^ (before() * 1664525)) + seed;
    advance();
  }
  for (size_t k = 1; k < kWords; ++k) {
    state_[i] = (state_[i] ^ (before() * 1566083941)) - static_cast<uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000;
}

void PythonRandom::refill() {
  constexpr size_t kShift = 397;
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t mixed = (state_[i] & 0x80000000) | (state_[(i + 1) % kWords] & 0x7fffffff);
    state_[i] = state_[(i + kShift) % kWords] ^ (mixed >> 1) ^ (mixed % 2 == 0 ? 0 : 0x9908b0df);
  }
  at_ = 0;
}

uint32_t PythonRandom::next() {
  if (at_ == kWords) refill();
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680;
  y ^= (y << 15) & 0xefc60000;
  return y ^ (y >> 18);
}

uint32_t PythonRandom::bits(int count) { return next() >> (32 - count); }

double PythonRandom::uniform() {
  const uint32_t high = next() >> 5, low = next() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

uint32_t PythonRandom::below(uint32_t n) {
  const int count = std::bit_width(n);
  uint32_t draw = bits(count);
  while (draw >= n) draw = bits(count);
  return draw;
}

void PythonRandom::shuffle(std::vector<int>& items) {
  for (size_t i = items.size() - 1; i > 0; --i) {
    std::swap(items[i], items[below(static_cast<uint32_t>(i + 1))]);
  }
}

std::vector<uint32_t> PythonRandom::sample_of_many(uint32_t n, int k) {
  std::vector<uint32_t> taken;
  while (static_cast<int>(taken.size()) < k) {
    const uint32_t draw = below(n);
    if (std::ranges::count(taken, draw) == 0) taken.push_back(draw);
  }
  return taken;
}

std::vector<uint32_t> PythonRandom::sample_of_few(uint32_t n, int k) {
  std::vector<uint32_t> pool(n), taken;
  std::iota(pool.begin(), pool.end(), 0);
  for (uint32_t i = 0; static_cast<int>(i) < k; ++i) {
    const uint32_t draw = below(n - i);
    taken.push_back(pool[draw]);
    pool[draw] = pool[n - i - 1];
  }
  return taken;
}

}  // namespace flotilla::cage2
