// One allocation for all the arrays that belong together.
//
// Fields are registered first, with a name and a shape of rows and columns; then the arena is
// made in one piece and hands out views. Every row starts on a 64-byte boundary, so rows do not
// share cache lines. A shared arena lies in memory that worker processes map as well; it has no
// name in the file system and vanishes with the last process that holds it.
//
//   ArenaLayout layout;
//   auto reward = layout.add<float>("reward", steps, num_envs);
//   Arena arena(layout, Arena::Backing::kPrivate);
//   float* first = arena.view(reward).row(0);
//
// Allocates: only in the constructor. Memory starts zeroed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace flotilla {

constexpr size_t kRowAlignment = 64;

// Where a field lies; the same in every process that maps the arena.
template <class T>
struct FieldId {
  size_t offset = 0, rows = 0, columns = 0, stride = 0;  // offset and stride in bytes
};

template <class T>
class Field {
 public:
  Field() = default;
  Field(std::byte* base, const FieldId<T>& id) : data_(base + id.offset), stride_(id.stride) {}
  T* row(size_t r) const { return reinterpret_cast<T*>(data_ + r * stride_); }

 private:
  std::byte* data_ = nullptr;
  size_t stride_ = 0;
};

class ArenaLayout {
 public:
  // REQUIRES: T is trivially copyable with alignment of at most 64.
  template <class T>
  FieldId<T> add(const std::string& name, size_t rows, size_t columns) {
    static_assert(std::is_trivially_copyable_v<T> || std::is_standard_layout_v<T>);
    static_assert(alignof(T) <= kRowAlignment);
    const size_t stride = padded_row(name, columns, sizeof(T));
    return {reserve(name, rows, stride), rows, columns, stride};
  }

  size_t bytes() const { return bytes_; }
  // "obs 64.0 KiB, reward 4.0 KiB": the fields by size, largest first.
  std::string describe() const;

 private:
  struct Entry {
    std::string name;
    size_t bytes;
  };
  static size_t padded_row(const std::string& name, size_t columns, size_t element);
  size_t reserve(const std::string& name, size_t rows, size_t stride);
  std::vector<Entry> entries_;
  size_t bytes_ = 0;
};

class Arena {
 public:
  enum class Backing { kPrivate, kShared };

  // Throws Error(kUsage) that says how much was needed when memory is short.
  Arena(const ArenaLayout& layout, Backing backing);
  // Maps the shared arena of another process.
  Arena(int fd, size_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  template <class T>
  Field<T> view(const FieldId<T>& id) const {
    return Field<T>(base_, id);
  }

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_; }  // -1 when private
  bool contains(const void* start, size_t bytes) const;

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace flotilla
