// Memory for tables that are read here and there: large pages, where the system has some, spare the
// search for where a page lies.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace flotilla::funding {

template <class T>
struct LargePages {
  using value_type = T;

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    void* memory = ::operator new(bytes, kAlignment);
    madvise(memory, bytes, MADV_HUGEPAGE);  // an advice: without it the pages are small ones
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kAlignment); }
  friend bool operator==(const LargePages&, const LargePages&) { return true; }

 private:
  static constexpr std::align_val_t kAlignment{size_t{2} << 20U};
};

template <class T>
using LargeTable = std::vector<T, LargePages<T>>;

}  // namespace flotilla::funding
