// The generator of Python's `random` module: Matsumoto and Nishimura, "Mersenne Twister" (1998),
// with the functions that CPython 3.11 builds on it. Only for repeating what a Python program drew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flotilla::cage2 {

class PythonRandom {
 public:
  explicit PythonRandom(uint32_t seed);  // random.seed(seed)

  uint32_t next();             // 32 bits
  uint32_t bits(int count);    // getrandbits, 1 to 32
  double uniform();            // random()
  uint32_t below(uint32_t n);  // as in choice() and shuffle(); REQUIRES: n > 0
  void shuffle(std::vector<int>& items);
  // sample(range(n), k), with the set method for large n and the pool method for small.
  std::vector<uint32_t> sample_of_many(uint32_t n, int k);
  std::vector<uint32_t> sample_of_few(uint32_t n, int k);

 private:
  static constexpr size_t kWords = 624;
  void refill();
  std::array<uint32_t, kWords> state_;
  size_t at_ = kWords;
};

}  // namespace flotilla::cage2
