#include "flotilla/core/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "flotilla/core/error.h"

namespace flotilla {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

[[noreturn]] void refuse() { throw Error(ErrorCode::kData, "a text is not base64"); }

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < count ? static_cast<uint32_t>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::vector<std::byte> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) refuse();
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int8_t value = k < digits ? kValues[static_cast<uint8_t>(text[i + k])] : int8_t{0};
      if (value < 0) refuse();
      word = word << 6 | static_cast<uint32_t>(value);
    }
    const size_t count = digits - 1;
    // Bits that belong to no byte are zero.
    if ((word & ((1U << (8 * (3 - count))) - 1)) != 0) refuse();
    for (size_t k = 0; k < count; ++k)
      bytes.push_back(static_cast<std::byte>(word >> (16 - 8 * k)));
  }
  return bytes;
}

}  // namespace flotilla
