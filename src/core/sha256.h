// SHA-256 (FIPS 180-4), to name configs, parameters and trajectories.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flotilla {

class Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  std::string hex();  // finishes; call once

 private:
  void compress(const uint8_t* block);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_{};
  uint64_t total_ = 0;
};

std::string sha256_hex(std::string_view text);

}  // namespace flotilla
