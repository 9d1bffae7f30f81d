#include "core/thread_pool.h"

#include <algorithm>

#include "core/error.h"

namespace flotilla {

Span part_of(Span whole, int part, int parts, int align) {
  const int64_t blocks = (whole.size() + align - 1) / align;
  const auto edge = [&](int64_t p) {
    return std::min<int64_t>(whole.end, whole.begin + blocks * p / parts * align);
  };
  return {static_cast<int>(edge(part)), static_cast<int>(edge(part + 1))};
}

ThreadPool::ThreadPool(int threads) {
  for (Slot& slot : slots_) slot.thrown.resize(static_cast<size_t>(threads));
  team_.reserve(static_cast<size_t>(threads - 1));
  for (int part = 1; part < threads; ++part) team_.emplace_back([this, part] { work(part); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  work_bell_.ring();
  for (std::thread& thread : team_) thread.join();
}

uint64_t ThreadPool::start(Job job, void* context) {
  const uint64_t ticket = started_.load(std::memory_order_relaxed);
  Slot& slot = slots_[ticket % kMaxStarted];
  if (slot.open) throw Error(ErrorCode::kInternal, "too many jobs started on one thread pool");
  slot.job = job;
  slot.context = context;
  slot.open = true;
  slot.unfinished.store(static_cast<int>(team_.size()), std::memory_order_relaxed);
  started_.store(ticket + 1, std::memory_order_release);
  if (!team_.empty()) work_bell_.ring();
  return ticket;
}

void ThreadPool::finish(uint64_t ticket) {
  Slot& slot = slots_[ticket % kMaxStarted];
  run_part(slot, 0);
  while (true) {
    const uint32_t heard = done_bell_.heard();
    if (slot.unfinished.load(std::memory_order_acquire) == 0) break;
    done_bell_.wait(heard, patience_, Deadline::never());
  }
  slot.open = false;
  const auto first = std::ranges::find_if(slot.thrown, [](const auto& e) { return e != nullptr; });
  if (first == slot.thrown.end()) return;
  const std::exception_ptr error = *first;
  std::ranges::fill(slot.thrown, nullptr);
  std::rethrow_exception(error);
}

void ThreadPool::run_part(Slot& slot, int part) {
  try {
    slot.job(slot.context, part);
  } catch (...) {
    slot.thrown[static_cast<size_t>(part)] = std::current_exception();
  }
}

void ThreadPool::work(int part) {
  Patience patience;
  for (uint64_t next = 0;; ++next) {
    while (started_.load(std::memory_order_acquire) <= next) {
      const uint32_t heard = work_bell_.heard();
      if (stop_.load(std::memory_order_acquire)) return;
      if (started_.load(std::memory_order_acquire) > next) break;
      work_bell_.wait(heard, patience, Deadline::never());
    }
    Slot& slot = slots_[next % kMaxStarted];
    run_part(slot, part);
    if (slot.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) done_bell_.ring();
  }
}

}  // namespace flotilla
