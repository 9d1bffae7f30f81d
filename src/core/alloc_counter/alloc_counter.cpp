// libflotilla_alloc_count.so: an operator new that counts its calls, for the whole process that
// loads it (core/alloc_count.h).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> g_allocations{0};

void* counted(void* memory) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory != nullptr) return memory;
  if (const std::new_handler handler = std::get_new_handler()) handler();  // ours throws
  throw std::bad_alloc();
}

}  // namespace

extern "C" uint64_t flotilla_allocation_count() { return g_allocations.load(); }

// The array and nothrow forms of the standard library call these.
void* operator new(size_t bytes) { return counted(std::malloc(bytes == 0 ? 1 : bytes)); }

void* operator new(size_t bytes, std::align_val_t alignment) {
  const size_t align = std::max(static_cast<size_t>(alignment), sizeof(void*));
  void* memory = nullptr;
  const int refusal = posix_memalign(&memory, align, bytes == 0 ? 1 : bytes);
  return counted(refusal == 0 ? memory : nullptr);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
