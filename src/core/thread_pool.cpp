#include "flotilla/core/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"

namespace flotilla {

Span part_of(Span whole, int part, int parts, int align) {
  const int64_t blocks = (whole.size() + align - 1) / align;
  const auto edge = [&](int64_t p) {
    return std::min<int64_t>(whole.end, whole.begin + blocks * p / parts * align);
  };
  return {static_cast<int>(edge(part)), static_cast<int>(edge(part + 1))};
}

ThreadPool::ThreadPool(int threads, bool pinned) : claims_(static_cast<size_t>(threads)) {
  for (Slot& slot : slots_) slot.thrown.resize(static_cast<size_t>(threads));
  const std::vector<int> cpus = own_cpus();
  pinned = pinned && cpus.size() >= static_cast<size_t>(threads);
  team_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int part = 1; part < threads; ++part) {
      const int cpu = pinned ? cpus[static_cast<size_t>(part)] : -1;
      team_.emplace_back([this, part, cpu] {
        if (cpu >= 0) stay_on(cpu);
        work(part);
      });
    }
  } catch (const std::system_error& error) {
    stop();
    throw Error(ErrorCode::kInternal, "cannot start " + std::to_string(threads) +
                                          " threads: " + reason_of(error.code().value()));
  } catch (...) {  // no memory for one: those that run must be joined
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true);
  work_bell_.ring();
  for (std::thread& thread : team_) thread.join();
}

int ThreadPool::start(Job job, void* context) {
  const auto free = std::ranges::find(slots_, false, &Slot::open);
  if (free == slots_.end()) {
    throw Error(ErrorCode::kInternal, "too many jobs started on one thread pool");
  }
  const auto ticket = static_cast<int>(free - slots_.begin());
  free->job = job;
  free->context = context;
  free->open = true;
  free->unfinished.store(static_cast<int>(team_.size()), std::memory_order_relaxed);
  const uint64_t number = started_.load(std::memory_order_relaxed);
  order_[number % kMaxStarted] = ticket;
  started_.store(number + 1, std::memory_order_release);
  if (!team_.empty()) work_bell_.ring();
  return ticket;
}

void ThreadPool::set_spare(Spare spare, void* context) {
  spare_.store(nullptr, std::memory_order_release);
  run([](int) {});  // a thread that does its part is in no spare work
  spare_context_ = context;
  spare_.store(spare, std::memory_order_release);
  wake();
}

void ThreadPool::finish(int ticket) {
  Slot& slot = slots_[static_cast<size_t>(ticket)];
  run_part(slot, 0);
  const bool wait = slot.unfinished.load(std::memory_order_acquire) != 0;
  const uint64_t start = wait ? now_ns() : 0;
  while (true) {
    const uint32_t heard = done_bell_.heard();
    if (slot.unfinished.load(std::memory_order_acquire) == 0) break;
    done_bell_.wait(heard, patience_, Deadline::never());
  }
  if (wait) waited_ns_ += now_ns() - start;
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
      const Spare spare = spare_.load(std::memory_order_acquire);
      if (spare != nullptr && spare(spare_context_, part)) continue;
      work_bell_.wait(heard, patience, Deadline::never());
    }
    Slot& slot = slots_[static_cast<size_t>(order_[next % kMaxStarted])];
    run_part(slot, part);
    if (slot.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) done_bell_.ring();
  }
}

}  // namespace flotilla
