// Layout of a value, all integers little endian:
//   1 byte    length of the tag
//   n bytes   tag
//   1 byte    type
//   8 bytes   length of the payload
//   m bytes   payload
#include "flotilla/core/serial.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

enum class Type : uint8_t { kInteger = 1, kNumber = 2, kText = 3, kBytes = 4 };

constexpr size_t kWordBytes = 8;
constexpr size_t kLongestTag = 255;

const char* name_of(Type type) {
  switch (type) {
    case Type::kInteger:
      return "integer";
    case Type::kNumber:
      return "number";
    case Type::kText:
      return "text";
    case Type::kBytes:
      return "bytes";
  }
  return "unknown type";
}

std::array<std::byte, kWordBytes> to_little_endian(uint64_t value) {
  std::array<std::byte, kWordBytes> bytes;
  for (size_t i = 0; i < kWordBytes; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

uint64_t from_little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kWordBytes; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append(std::vector<std::byte>& buffer, std::string_view tag, Type type,
            std::span<const std::byte> payload) {
  if (tag.size() > kLongestTag) {
    throw Error(ErrorCode::kInternal, fmt::format("tag {} has {} bytes, {} are allowed",
                                                  in_quotes(tag), tag.size(), kLongestTag));
  }
  const auto tag_bytes = std::as_bytes(std::span(tag));
  const auto length = to_little_endian(payload.size());
  buffer.push_back(static_cast<std::byte>(tag.size()));
  buffer.insert(buffer.end(), tag_bytes.begin(), tag_bytes.end());
  buffer.push_back(static_cast<std::byte>(type));
  buffer.insert(buffer.end(), length.begin(), length.end());
  buffer.insert(buffer.end(), payload.begin(), payload.end());
}

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kData, origin + ": " + what);
}

void check_size(const std::string& origin, std::string_view tag, size_t found, size_t expected) {
  if (found == expected) return;
  fail(origin, fmt::format("{} has {} bytes, expected {}", in_quotes(tag), found, expected));
}

// The payload of the value at `offset`, which moves behind it.
std::span<const std::byte> take(std::span<const std::byte> buffer, const std::string& origin,
                                size_t& offset, std::string_view tag, Type type) {
  if (offset == buffer.size()) fail(origin, "ends before " + in_quotes(tag));
  std::span<const std::byte> rest = buffer.subspan(offset);
  const auto cut = [&](uint64_t bytes) {
    if (bytes > rest.size()) fail(origin, "ends inside " + in_quotes(tag));
    const auto front = rest.first(static_cast<size_t>(bytes));
    rest = rest.subspan(static_cast<size_t>(bytes));
    return front;
  };
  const std::string_view found_tag = as_text(cut(std::to_integer<uint64_t>(cut(1)[0])));
  const auto found_type = static_cast<Type>(cut(1)[0]);
  if (found_tag != tag || found_type != type) {
    fail(origin, fmt::format("expected {} ({}), found {} ({})", in_quotes(tag), name_of(type),
                             in_quotes(found_tag), name_of(found_type)));
  }
  const auto payload = cut(from_little_endian(cut(kWordBytes)));
  offset = buffer.size() - rest.size();
  return payload;
}

}  // namespace

void Writer::u64(std::string_view tag, uint64_t value) {
  append(buffer_, tag, Type::kInteger, to_little_endian(value));
}

void Writer::f64(std::string_view tag, double value) {
  append(buffer_, tag, Type::kNumber, to_little_endian(std::bit_cast<uint64_t>(value)));
}

void Writer::text(std::string_view tag, std::string_view value) {
  append(buffer_, tag, Type::kText, std::as_bytes(std::span(value)));
}

void Writer::bytes(std::string_view tag, std::span<const std::byte> value) {
  append(buffer_, tag, Type::kBytes, value);
}

Reader::Reader(std::span<const std::byte> buffer, std::string origin)
    : buffer_(buffer), origin_(std::move(origin)) {}

uint64_t Reader::u64(std::string_view tag) {
  const auto payload = take(buffer_, origin_, offset_, tag, Type::kInteger);
  check_size(origin_, tag, payload.size(), kWordBytes);
  return from_little_endian(payload);
}

double Reader::f64(std::string_view tag) {
  const auto payload = take(buffer_, origin_, offset_, tag, Type::kNumber);
  check_size(origin_, tag, payload.size(), kWordBytes);
  return std::bit_cast<double>(from_little_endian(payload));
}

std::string Reader::text(std::string_view tag) {
  return std::string(as_text(take(buffer_, origin_, offset_, tag, Type::kText)));
}

std::span<const std::byte> Reader::bytes(std::string_view tag) {
  return take(buffer_, origin_, offset_, tag, Type::kBytes);
}

void Reader::bytes_into(std::string_view tag, std::span<std::byte> out) {
  const auto payload = take(buffer_, origin_, offset_, tag, Type::kBytes);
  check_size(origin_, tag, payload.size(), out.size());
  std::copy(payload.begin(), payload.end(), out.begin());
}

}  // namespace flotilla
