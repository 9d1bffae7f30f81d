// A slow, readable twin of what reads event files: records, and the fields of a message. It goes by
// the description of the formats, not by our code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::test {

inline uint32_t slow_masked_crc(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

inline uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

struct Field {
  uint64_t number = 0, type = 0;
  uint64_t value = 0;  // of an integer or a fixed field
  std::string bytes;
};

// Nothing when the bytes are no message.
inline std::optional<std::vector<Field>> slow_fields(std::string_view message) {
  size_t at = 0;
  bool good = true;
  const auto take = [&](uint64_t count) -> std::string_view {
    if (count > message.size() - at) good = false;
    if (!good) return {};
    at += count;
    return message.substr(at - count, count);
  };
  const auto varint = [&] {
    uint64_t value = 0;
    for (unsigned shift = 0; good; shift += 7) {
      const std::string_view byte = take(1);
      if (shift >= 70) good = false;
      if (!good) break;
      value |= (static_cast<uint64_t>(byte[0]) & 0x7F) << shift;
      if ((byte[0] & 0x80) == 0) break;
    }
    return value;
  };
  std::vector<Field> fields;
  while (good && at < message.size()) {
    const uint64_t key = varint();
    Field field{.number = key / 8, .type = key % 8, .value = 0, .bytes = ""};
    if (field.number == 0) good = false;
    if (field.type == 0) {
      field.value = varint();
    } else if (field.type == 1) {
      field.value = little_endian(take(8));
    } else if (field.type == 2) {
      field.bytes = take(varint());
    } else if (field.type == 5) {
      field.value = little_endian(take(4));
    } else {
      good = false;
    }
    fields.push_back(std::move(field));
  }
  if (!good) return std::nullopt;
  return fields;
}

struct SlowRecord {
  std::string_view data;
  size_t end = 0;  // in the file
  std::vector<Field> fields;
  int64_t step = 0;
};

// The records of a file, up to the first that is not a whole event.
inline std::vector<SlowRecord> slow_records(std::string_view file) {
  std::vector<SlowRecord> records;
  for (size_t at = 0; file.size() - at >= 16;) {
    const std::string_view length_bytes = file.substr(at, 8);
    const uint64_t length = little_endian(length_bytes);
    if (little_endian(file.substr(at + 8, 4)) != slow_masked_crc(length_bytes)) break;
    if (length > file.size() - at - 16) break;
    const std::string_view data = file.substr(at + 12, length);
    if (little_endian(file.substr(at + 12 + length, 4)) != slow_masked_crc(data)) break;
    const auto fields = slow_fields(data);
    if (!fields) break;
    at += 16 + length;
    SlowRecord& record = records.emplace_back(SlowRecord{data, at, *fields, 0});
    for (const Field& field : *fields) {
      if (field.number == 2 && field.type == 0) record.step = static_cast<int64_t>(field.value);
    }
  }
  return records;
}

}  // namespace flotilla::test
