#include "flotilla/core/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

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

ThreadPool::ThreadPool(int threads, bool pinned)
    : crew_(std::min(threads, cpu_count())), claims_(static_cast<size_t>(threads)) {
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
  call(Hands::kAll);
  for (std::thread& thread : team_) thread.join();
}

void ThreadPool::call(Hands hands) {
  if (crew_ > 1) of_cores_.bell.load()->ring();
  if (hands == Hands::kAll && threads() > crew_) beyond_.bell.load()->ring();
}

// Null: to their own ones. Who is about to wait for the last bell hears it ring, or sees that there
// is another.
void ThreadPool::listen_to(Bell* bell) {
  for (Queue* queue : {&of_cores_, &beyond_}) {
    queue->bell.exchange(bell != nullptr ? bell : &queue->own_bell)->ring();
  }
}

int ThreadPool::start(Job job, void* context, Hands hands) {
  const auto free = std::ranges::find(slots_, false, &Slot::open);
  if (free == slots_.end()) {
    throw Error(ErrorCode::kInternal, "too many jobs started on one thread pool");
  }
  const auto ticket = static_cast<int>(free - slots_.begin());
  free->job = job;
  free->context = context;
  free->open = true;
  free->unfinished.store(threads(hands) - 1, std::memory_order_relaxed);
  const auto enqueue = [ticket](Queue& queue) {
    const uint64_t number = queue.started.load(std::memory_order_relaxed);
    queue.order[number % kMaxStarted] = ticket;
    queue.started.store(number + 1, std::memory_order_release);
  };
  enqueue(of_cores_);
  if (hands == Hands::kAll) enqueue(beyond_);
  call(hands);
  return ticket;
}

void ThreadPool::set_spare(Spare spare, void* context, Bell* bell) {
  spare_.store(nullptr, std::memory_order_release);
  listen_to(bell);
  run([](int) {});  // a thread that does its part is in no spare work
  spare_context_ = context;
  spare_.store(spare, std::memory_order_release);
  wake();
}

void ThreadPool::finish(int ticket) {
  Slot& slot = slots_[static_cast<size_t>(ticket)];
  run_part(slot, 0);
  wait_for(slot.unfinished);
  slot.open = false;
  const auto first = std::ranges::find_if(slot.thrown, [](const auto& e) { return e != nullptr; });
  if (first == slot.thrown.end()) return;
  const std::exception_ptr error = *first;
  std::ranges::fill(slot.thrown, nullptr);
  std::rethrow_exception(error);
}

void ThreadPool::wait_for(const std::atomic<int>& unfinished) {
  if (unfinished.load(std::memory_order_acquire) == 0) return;
  const uint64_t start = now_ns();
  while (true) {
    const uint32_t heard = done_bell_.heard();
    if (unfinished.load(std::memory_order_acquire) == 0) break;
    done_bell_.wait(heard, patience_, Deadline::never());
  }
  waited_ns_ += now_ns() - start;
}

void ThreadPool::do_all(int count, int neighbours, Hands hands, Item body, void* context) {
  if (count == 0) return;
  publish(count, neighbours, threads(hands), body, context);
  call(hands);
  take_items(0);
  wait_for_items();
  if (items_.thrown != nullptr) std::rethrow_exception(std::exchange(items_.thrown, nullptr));
}

// The old shares are closed before anything changes: who sees some of the new has nothing of the
// old to take.
void ThreadPool::publish(int count, int neighbours, int shares, Item body, void* context) {
  const uint32_t number = items_.number.load(std::memory_order_relaxed) + 1;
  for (Claim& claim : claims_) claim.next.store(Claim::of(number, INT32_MAX));
  items_.body.store(body, std::memory_order_release);
  items_.context.store(context, std::memory_order_release);
  items_.count.store(count, std::memory_order_release);
  items_.neighbours.store(neighbours, std::memory_order_release);
  items_.shares.store(shares, std::memory_order_release);
  items_.unfinished.store(count, std::memory_order_relaxed);
  for (int i = 0; i < shares; ++i) {
    const Span share = part_of({0, count}, i, shares, neighbours);
    claims_[static_cast<size_t>(i)].next.store(Claim::of(number, share.begin),
                                               std::memory_order_release);
  }
  items_.number.store(number, std::memory_order_release);
}

void ThreadPool::take_items(int thread) {
  const uint32_t number = items_.number.load(std::memory_order_acquire);
  const Item body = items_.body.load(std::memory_order_acquire);
  void* const context = items_.context.load(std::memory_order_acquire);
  const int count = items_.count.load(std::memory_order_acquire);
  const int neighbours = items_.neighbours.load(std::memory_order_acquire);
  const int shares = items_.shares.load(std::memory_order_acquire);
  if (thread >= shares) return;  // it has been called for something else
  for (int k = 0; k < shares; ++k) {
    const int owner = (thread + k) % shares;
    std::atomic<uint64_t>& next = claims_[static_cast<size_t>(owner)].next;
    const uint64_t end = Claim::of(number, part_of({0, count}, owner, shares, neighbours).end);
    uint64_t first = next.load(std::memory_order_acquire);
    while (first >= Claim::of(number, 0) && first < end) {
      if (!next.compare_exchange_weak(first, first + 1, std::memory_order_acq_rel)) continue;
      do_item(body, context, thread, static_cast<int>(first & UINT32_MAX));
      first = next.load(std::memory_order_acquire);
    }
  }
}

bool ThreadPool::wants_more() const {
  const int shares = items_.shares.load(std::memory_order_relaxed);
  int idle = 0;
  for (int i = 0; i < shares; ++i) {
    idle += claims_[static_cast<size_t>(i)].idle.load(std::memory_order_relaxed) ? 1 : 0;
  }
  return idle > handed_over_.count.load(std::memory_order_relaxed) && all_begun();
}

bool ThreadPool::all_begun() const {
  const uint32_t number = items_.number.load(std::memory_order_relaxed);
  const int count = items_.count.load(std::memory_order_relaxed);
  const int neighbours = items_.neighbours.load(std::memory_order_relaxed);
  const int shares = items_.shares.load(std::memory_order_relaxed);
  for (int i = 0; i < shares; ++i) {
    const uint64_t end = Claim::of(number, part_of({0, count}, i, shares, neighbours).end);
    if (claims_[static_cast<size_t>(i)].next.load(std::memory_order_relaxed) < end) return false;
  }
  return true;
}

void ThreadPool::hand_over(int item) {
  {
    const std::lock_guard<std::mutex> lock(handed_over_.mutex);
    handed_over_.items.push_back(item);
    // Before anyone can take it; the giver's own item keeps the others unfinished until here.
    items_.unfinished.fetch_add(1, std::memory_order_relaxed);
    handed_over_.count.store(static_cast<int>(handed_over_.items.size()),
                             std::memory_order_relaxed);
  }
  call(items_.shares.load(std::memory_order_relaxed) > crew_ ? Hands::kAll : Hands::kCores);
  done_bell_.ring();
}

// While there are some, the items that they belong to are the present ones.
bool ThreadPool::take_handed_over(int thread) {
  if (handed_over_.count.load(std::memory_order_relaxed) == 0) return false;
  int item = 0;
  {
    const std::lock_guard<std::mutex> lock(handed_over_.mutex);
    if (handed_over_.items.empty() || thread >= items_.shares.load()) return false;
    item = handed_over_.items.back();
    handed_over_.items.pop_back();
    handed_over_.count.store(static_cast<int>(handed_over_.items.size()),
                             std::memory_order_relaxed);
  }
  do_item(items_.body.load(std::memory_order_acquire),
          items_.context.load(std::memory_order_acquire), thread, item);
  return true;
}

void ThreadPool::wait_for_items() {
  const auto done = [&] { return items_.unfinished.load(std::memory_order_acquire) == 0; };
  if (done()) return;
  const uint64_t start = now_ns();
  uint64_t worked_ns = 0;
  while (!done()) {
    const uint32_t heard = done_bell_.heard();
    const uint64_t before = now_ns();
    if (take_handed_over(0)) {
      worked_ns += now_ns() - before;
    } else if (!done()) {
      wait(0, done_bell_, heard, patience_);
    }
  }
  waited_ns_ += now_ns() - start - worked_ns;
}

void ThreadPool::wait(int thread, Bell& bell, uint32_t heard, Patience& patience) {
  std::atomic<bool>& idle = claims_[static_cast<size_t>(thread)].idle;
  idle.store(true, std::memory_order_relaxed);
  bell.wait(heard, patience, Deadline::never());
  idle.store(false, std::memory_order_relaxed);
}

void ThreadPool::do_item(Item body, void* context, int thread, int item) {
  try {
    body(context, thread, item);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(items_.throwing);
    if (items_.thrown == nullptr || item < items_.thrown_by) {
      items_.thrown = std::current_exception();
      items_.thrown_by = item;
    }
  }
  if (items_.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) done_bell_.ring();
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
  Queue& queue = queue_of(part);
  uint64_t jobs = 0;   // that it has done its part of
  uint32_t items = 0;  // the number of those that it has looked at
  while (true) {
    Bell& bell = *queue.bell.load();
    const uint32_t heard = bell.heard();
    if (queue.bell.load() != &bell) continue;
    const bool stop = stop_.load(std::memory_order_acquire);  // what was started before is done
    if (queue.started.load(std::memory_order_acquire) > jobs) {
      Slot& slot = slots_[static_cast<size_t>(queue.order[jobs++ % kMaxStarted])];
      run_part(slot, part);
      if (slot.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) done_bell_.ring();
      continue;
    }
    if (stop) return;
    if (const uint32_t newest = items_.number.load(std::memory_order_acquire); newest != items) {
      items = newest;
      take_items(part);
      continue;
    }
    if (take_handed_over(part)) continue;
    const Spare spare = spare_.load(std::memory_order_acquire);
    if (spare != nullptr && spare(spare_context_, part)) continue;
    wait(part, bell, heard, patience);
  }
}

}  // namespace flotilla
