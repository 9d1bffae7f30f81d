#include "flotilla/core/crc32c.h"

#include <array>
#include <cstddef>

namespace flotilla {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // with the lowest power in the highest bit
constexpr size_t kSlices = 8;

// Entry [k][b] is what the byte b contributes when k more bytes follow it, so that eight bytes are
// taken at once ("slicing-by-8", Kounavis and Berry 2005): the work of one does not wait for that
// of the byte before it.
constexpr std::array<std::array<uint32_t, 256>, kSlices> kTables = [] {
  std::array<std::array<uint32_t, 256>, kSlices> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  uint32_t crc = 0xFFFFFFFF;
  for (; bytes.size() >= kSlices; bytes.remove_prefix(kSlices)) {
    uint32_t next = 0;
    for (size_t i = 0; i < kSlices; ++i) {
      const uint32_t mixed = i < 4 ? (crc >> (8 * i)) & 0xFF : 0;
      next ^= kTables[kSlices - 1 - i][byte(i) ^ mixed];
    }
    crc = next;
  }
  for (; !bytes.empty(); bytes.remove_prefix(1)) {
    crc = (crc >> 8) ^ kTables[0][(crc & 0xFF) ^ byte(0)];
  }
  return ~crc;
}

}  // namespace flotilla
