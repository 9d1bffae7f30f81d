// CRC-32C (Castagnoli), the checksum of RFC 3720 and of TensorBoard's event files.
#pragma once

#include <cstdint>
#include <string_view>

namespace flotilla {

uint32_t crc32c(std::string_view bytes);

}  // namespace flotilla
