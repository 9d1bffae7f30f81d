#include "flotilla/core/serial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

struct State {
  int32_t x;
  float y;
  std::array<uint8_t, 8> z;
};

std::vector<std::byte> as_vector(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> sample_bytes() {
  Writer writer;
  writer.u64("seed", 0x0123456789ABCDEF);
  writer.f64("lr", 2.5e-4);
  writer.text("env", "cartpole");
  const auto slots = as_vector(std::string(40, 's'));
  writer.bytes("slots", slots);
  writer.pod("state", State{-5, 1.5f, {1, 2, 3, 4, 5, 6, 7, 8}});
  return writer.buffer();
}

void read_sample(std::span<const std::byte> buffer) {
  Reader reader(buffer, "state.bin");
  reader.u64("seed");
  reader.f64("lr");
  reader.text("env");
  reader.bytes("slots");
  reader.pod<State>("state");
}

template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kData);
    return error.what();
  }
  return "no error";
}

TEST(Serial, RoundTrip) {
  const auto buffer = sample_bytes();
  Reader reader(buffer, "state.bin");
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(reader.u64("seed"), 0x0123456789ABCDEFu);
  EXPECT_EQ(reader.f64("lr"), 2.5e-4);
  EXPECT_EQ(reader.text("env"), "cartpole");
  const auto slots = reader.bytes("slots");
  EXPECT_EQ(std::vector<std::byte>(slots.begin(), slots.end()), as_vector(std::string(40, 's')));
  const auto state = reader.pod<State>("state");
  EXPECT_EQ(state.x, -5);
  EXPECT_EQ(state.y, 1.5f);
  EXPECT_EQ(state.z, (std::array<uint8_t, 8>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(reader.at_end());
}

TEST(Serial, EdgeValues) {
  Writer writer;
  writer.u64("", ~uint64_t{0});
  writer.f64("nan", std::numeric_limits<double>::quiet_NaN());
  writer.f64("minus_zero", -0.0);
  writer.f64("tiny", std::numeric_limits<double>::denorm_min());
  writer.text("empty", "");
  writer.text("nul", std::string_view("a\0b", 3));
  writer.bytes("none", {});
  writer.u64(std::string(255, 't'), 1);
  Reader reader(writer.buffer(), "x");
  EXPECT_EQ(reader.u64(""), ~uint64_t{0});
  EXPECT_TRUE(std::isnan(reader.f64("nan")));
  EXPECT_EQ(std::bit_cast<uint64_t>(reader.f64("minus_zero")), uint64_t{1} << 63u);
  EXPECT_EQ(reader.f64("tiny"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(reader.text("empty"), "");
  EXPECT_EQ(reader.text("nul"), std::string("a\0b", 3));
  EXPECT_EQ(reader.bytes("none").size(), 0u);
  EXPECT_EQ(reader.u64(std::string(255, 't')), 1u);
  EXPECT_TRUE(reader.at_end());
}

// The bytes are a file format: they may not change by accident.
TEST(Serial, Layout) {
  Writer writer;
  writer.u64("ab", 0x0102);
  EXPECT_EQ(writer.buffer(), as_vector(std::string("\x02"
                                                   "ab"
                                                   "\x01"
                                                   "\x08\0\0\0\0\0\0\0"
                                                   "\x02\x01\0\0\0\0\0\0",
                                                   20)));
}

TEST(Serial, TagTooLongIsABug) {
  Writer writer;
  try {
    writer.u64(std::string(256, 't'), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
  EXPECT_TRUE(writer.buffer().empty());
}

TEST(Serial, WrongTagOrTypeIsNamed) {
  const auto buffer = sample_bytes();
  EXPECT_EQ(error_of([&] { Reader(buffer, "state.bin").bytes("slots"); }),
            "state.bin: expected 'slots' (bytes), found 'seed' (integer)");
  EXPECT_EQ(error_of([&] { Reader(buffer, "state.bin").u64("step"); }),
            "state.bin: expected 'step' (integer), found 'seed' (integer)");
  EXPECT_EQ(error_of([&] { Reader(buffer, "state.bin").f64("seed"); }),
            "state.bin: expected 'seed' (number), found 'seed' (integer)");
  EXPECT_EQ(error_of([&] { Reader(buffer, "state.bin").text("seed"); }),
            "state.bin: expected 'seed' (text), found 'seed' (integer)");
  auto altered = buffer;
  altered[5] = std::byte{99};
  EXPECT_EQ(error_of([&] { Reader(altered, "state.bin").u64("seed"); }),
            "state.bin: expected 'seed' (integer), found 'seed' (unknown type)");
}

TEST(Serial, WrongSizeIsNamed) {
  Writer writer;
  writer.bytes("state", as_vector("123"));
  EXPECT_EQ(error_of([&] { Reader(writer.buffer(), "f").pod<State>("state"); }),
            "f: 'state' has 3 bytes, expected 16");
  const auto short_word = as_vector(std::string("\x01n\x01\x03\0\0\0\0\0\0\0abc", 14));
  EXPECT_EQ(error_of([&] { Reader(short_word, "f").u64("n"); }), "f: 'n' has 3 bytes, expected 8");
}

TEST(Serial, EndIsNamed) {
  EXPECT_EQ(error_of([] { Reader({}, "f").u64("seed"); }), "f: ends before 'seed'");
  Writer writer;
  writer.bytes("slots", as_vector("12345678"));
  const std::span<const std::byte> whole = writer.buffer();
  for (size_t size = 1; size < whole.size(); ++size) {
    ASSERT_EQ(error_of([&] { Reader(whole.first(size), "f").bytes("slots"); }),
              "f: ends inside 'slots'")
        << size << " bytes";
  }
}

TEST(Serial, HugeLengthIsNotBelieved) {
  for (const char top : {'\x7f', '\x80', '\xff'}) {
    std::string text("\x01s\x04\xff\xff\xff\xff\xff\xff\xff?abc", 14);
    text[10] = top;
    const auto buffer = as_vector(text);
    EXPECT_EQ(error_of([&] { Reader(buffer, "f").bytes("s"); }), "f: ends inside 's'");
  }
}

TEST(Serial, EveryPrefixIsRefused) {
  const auto buffer = sample_bytes();
  EXPECT_NO_THROW(read_sample(buffer));
  for (size_t size = 0; size < buffer.size(); ++size) {
    // A copy of its own size, so that a sanitizer sees a read behind the end.
    const std::vector<std::byte> prefix(buffer.begin(),
                                        buffer.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_THROW(read_sample(prefix), Error) << size << " bytes";
  }
}

TEST(Serial, MutatedBytesOnlyThrowError) {
  const auto buffer = sample_bytes();
  Rng rng(1, stream_of(Purpose::kTest, 0));
  int refused = 0;
  constexpr int kBuffers = 20'000;
  for (int i = 0; i < kBuffers; ++i) {
    auto mutated = buffer;
    for (uint32_t edits = 1 + rng.below(4); edits > 0 && !mutated.empty(); --edits) {
      const uint32_t at = rng.below(static_cast<uint32_t>(mutated.size()));
      const auto byte = static_cast<std::byte>(rng.below(256));
      const auto place = mutated.begin() + at;
      switch (rng.below(4)) {
        case 0:
          *place = byte;
          break;
        case 1:
          *place ^= std::byte{1} << rng.below(8);
          break;
        case 2:
          mutated.insert(place, byte);
          break;
        default:
          mutated.erase(
              place,
              place +
                  rng.below(static_cast<uint32_t>(std::min<size_t>(mutated.size() - at, 8)) + 1));
      }
    }
    mutated.shrink_to_fit();
    try {
      read_sample(mutated);
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.code(), ErrorCode::kData);
      const std::string_view what = error.what();
      ASSERT_EQ(what.find('\n'), what.npos);
      ASSERT_EQ(what.substr(0, 11), "state.bin: ");
    }
  }
  // Only edits inside payloads go unnoticed; what protects those is the checksum of the file.
  EXPECT_GT(refused, kBuffers / 2);
  EXPECT_LT(refused, kBuffers);
}

}  // namespace
}  // namespace flotilla
