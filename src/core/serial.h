// Savable state as bytes. Writer appends tagged values to a buffer; Reader takes them out in the
// same order and checks every tag and length, so a truncated, altered or foreign buffer is an
// Error(kData) that names what was expected, never undefined behaviour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace flotilla {

class Writer {
 public:
  void u64(std::string_view tag, uint64_t value);
  void f64(std::string_view tag, double value);
  void text(std::string_view tag, std::string_view value);
  void bytes(std::string_view tag, std::span<const std::byte> value);

  template <class T>
  void pod(std::string_view tag, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(tag, std::as_bytes(std::span(&value, 1)));
  }

  const std::vector<std::byte>& buffer() const { return buffer_; }

 private:
  std::vector<std::byte> buffer_;
};

class Reader {
 public:
  // `origin` (a file name, say) stands in every error. The bytes must outlive the reader.
  Reader(std::span<const std::byte> buffer, std::string origin);

  uint64_t u64(std::string_view tag);
  double f64(std::string_view tag);
  std::string text(std::string_view tag);
  std::span<const std::byte> bytes(std::string_view tag);
  void bytes_into(std::string_view tag, std::span<std::byte> out);  // exactly out.size() bytes

  template <class T>
  T pod(std::string_view tag) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    bytes_into(tag, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  bool at_end() const { return offset_ == buffer_.size(); }

 private:
  std::span<const std::byte> buffer_;
  std::string origin_;
  size_t offset_ = 0;
};

}  // namespace flotilla
