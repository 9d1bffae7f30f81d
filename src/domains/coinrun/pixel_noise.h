// Noise for drawings: the same number for the same place, on every machine.
#pragma once

#include <cstdint>

namespace flotilla::coinrun {

inline uint32_t mixed(uint32_t h) {
  h ^= h >> 16U;
  h *= 0x7feb352dU;
  h ^= h >> 15U;
  h *= 0x846ca68bU;
  return h ^ (h >> 16U);
}

inline uint32_t pixel_noise(int column, int row, uint32_t seed) {
  return mixed(static_cast<uint32_t>(column) * 0x9e3779b1U +
               mixed(static_cast<uint32_t>(row) + mixed(seed)));
}

// Uniform in [0, 1).
inline float unit_noise(int column, int row, uint32_t seed) {
  return static_cast<float>(pixel_noise(column, row, seed) >> 8U) * (1.0F / 16777216);
}

}  // namespace flotilla::coinrun
