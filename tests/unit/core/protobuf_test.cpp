#include "flotilla/core/protobuf.h"

#include <gtest/gtest.h>

namespace flotilla::protobuf {
namespace {

template <class... Bytes>
std::string bytes(Bytes... all) {
  return {static_cast<char>(all)...};
}

// The examples of the format's own description.
TEST(Protobuf, EncodesFields) {
  std::string out;
  put_integer(out, 1, 150);
  EXPECT_EQ(out, bytes(0x08, 0x96, 0x01));
  out.clear();
  put_text(out, 2, "testing");
  EXPECT_EQ(out, bytes(0x12, 0x07) + "testing");
  out.clear();
  put_message(out, 3, [&] { put_integer(out, 1, 150); });
  EXPECT_EQ(out, bytes(0x1a, 0x03, 0x08, 0x96, 0x01));
}

TEST(Protobuf, EncodesNumbersOfFixedSize) {
  std::string out;
  put_float(out, 2, 1.0F);
  EXPECT_EQ(out, bytes(0x15, 0, 0, 0x80, 0x3f));
  out.clear();
  put_double(out, 1, 1.0);
  EXPECT_EQ(out, bytes(0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f));
}

TEST(Protobuf, FieldsBeyondFifteenHaveLongerKeys) {
  std::string out;
  put_integer(out, 20, 1);
  EXPECT_EQ(out, bytes(0xa0, 0x01, 0x01));
}

// Behind 127 bytes the length in front of a message has two bytes, and what follows still fits.
TEST(Protobuf, MessagesMayBeLong) {
  std::string out = "before";
  put_message(out, 7, [&] { put_text(out, 1, std::string(300, 'x')); });
  EXPECT_EQ(out, "before" + bytes(0x3a, 0xaf, 0x02, 0x0a, 0xac, 0x02) + std::string(300, 'x'));
}

TEST(Protobuf, VarintsComeBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 35,
                               static_cast<uint64_t>(int64_t{-1})}) {
    std::string out;
    put_varint(out, value);
    out += "rest";
    std::string_view from = out;
    EXPECT_EQ(take_varint(from), value);
    EXPECT_EQ(from, "rest");
  }
  std::string_view cut = "\x80\x80";
  EXPECT_EQ(take_varint(cut), std::nullopt);
}

}  // namespace
}  // namespace flotilla::protobuf
