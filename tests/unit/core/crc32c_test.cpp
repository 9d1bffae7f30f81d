#include "flotilla/core/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

// Bit by bit, as the polynomial is divided on paper.
uint32_t slow_crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

// RFC 3720, B.4, gives the checksums as bytes on the wire: aa 36 91 8a is 0x8a9136aa.
TEST(Crc32c, VectorsOfTheStandard) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(up), 0x46DD794EU);
  EXPECT_EQ(crc32c(down), 0x113FDB5CU);
  std::string read_command(48, '\0');  // an iSCSI SCSI Read (10) PDU
  read_command.replace(0, 2, "\x01\xc0", 2);
  for (const auto& [at, byte] :
       {std::pair{16, 0x14}, {22, 0x04}, {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}}) {
    read_command[static_cast<size_t>(at)] = static_cast<char>(byte);
  }
  EXPECT_EQ(crc32c(read_command), 0xD9963A56U);
}

TEST(Crc32c, CheckValueAndNothing) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, AsBitByBit) {
  Rng rng(1, stream_of(Purpose::kTest, 0));
  std::string bytes;
  for (size_t size = 0; size < 300; ++size) {
    EXPECT_EQ(crc32c(bytes), slow_crc32c(bytes)) << size;
    // From an odd address too.
    EXPECT_EQ(crc32c(std::string_view(bytes).substr(size / 3)), slow_crc32c(bytes.substr(size / 3)))
        << size;
    bytes += static_cast<char>(rng.below(256));
  }
}

}  // namespace
}  // namespace flotilla
