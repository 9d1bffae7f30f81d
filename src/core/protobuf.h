// The encoding of protocol buffers, as far as our files take it: fields are appended to a string,
// https://protobuf.dev/programming-guides/encoding.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flotilla::protobuf {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
constexpr size_t kLongestVarint = 10;

// Returns how many bytes it wrote.
inline size_t to_varint(uint64_t value, char* out) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7) out[size++] = static_cast<char>(value | 0x80);
  out[size++] = static_cast<char>(value);
  return size;
}

inline void put_varint(std::string& out, uint64_t value) {
  char bytes[kLongestVarint];
  out.append(bytes, to_varint(value, bytes));
}

inline void put_key(std::string& out, uint8_t field, WireType type) {
  put_varint(out, uint64_t{field} << 3 | type);
}

inline void put_integer(std::string& out, uint8_t field, uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

inline void put_double(std::string& out, uint8_t field, double value) {
  put_key(out, field, kFixed64);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void put_float(std::string& out, uint8_t field, float value) {
  put_key(out, field, kFixed32);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A text, or bytes.
inline void put_text(std::string& out, uint8_t field, std::string_view text) {
  put_key(out, field, kBytes);
  put_varint(out, text.size());
  out += text;
}

// What `body` appends, as one field. Its length is known afterwards and put in front of it: moving
// a few bytes is cheaper than counting everything twice.
template <class F>
void put_message(std::string& out, uint8_t field, F&& body) {
  put_key(out, field, kBytes);
  const size_t begin = out.size();
  body();
  char length[kLongestVarint];
  out.insert(begin, length, to_varint(out.size() - begin, length));
}

// Takes a number from the front; nothing when there is none.
inline std::optional<uint64_t> take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (size_t i = 0; i < std::min(kLongestVarint, from.size()); ++i) {
    const auto byte = static_cast<uint8_t>(from[i]);
    value |= uint64_t{byte & 0x7FU} << (7 * i);
    if (byte < 0x80) {
      from.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace flotilla::protobuf
