// Bytes as text: base64 of RFC 4648, with padding.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

std::string to_base64(std::span<const std::byte> bytes);
// Throws Error(kData) for anything that to_base64() does not write.
std::vector<std::byte> from_base64(std::string_view text);

}  // namespace flotilla
