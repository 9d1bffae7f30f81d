// A fixed team of threads that works on one job at a time, each thread on its own part.
//
// The caller is one of the team: a pool of T threads starts T - 1 and the caller does part 0.
// start() returns at once, so the caller can prepare the next job while the team works; finish()
// does the caller's part and waits for the others. Which part does what is fixed by the part's
// number, never by timing.
//
//   pool.run([&](int part) { step_rows(part_of(rows, part, pool.threads())); });
//
// for_each() is for work in items that anyone may do. It ends when they are done, without waiting
// for threads that another program keeps from running.
//
// Threads beyond the cores only help with what makes a thread wait: to wake and to change them
// takes longer than many a job. Jobs say by Hands whether those are called.
//
// Threads without a job can do spare work, a little at a time (set_spare).
//
// Thread safety: one caller at a time. Jobs may overlap (kMaxStarted), but not nest.
// Allocates: nothing after the constructor, unless a job throws.
// Waiting: see Bell; idle threads use no CPU.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "flotilla/core/bell.h"

namespace flotilla {

// The half-open range [begin, end) of part `part` out of `parts`, cut at multiples of `align`.
struct Span {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
};
Span part_of(Span whole, int part, int parts, int align = 1);

// Which threads of a team do a job: as many as there are cores, or all.
enum class Hands { kCores, kAll };

class ThreadPool {
 public:
  using Job = void (*)(void* context, int part);
  static constexpr int kMaxStarted = 4;

  // `pinned`: every thread but the caller stays on a CPU of its own, where there are as many.
  explicit ThreadPool(int threads, bool pinned = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(team_.size()) + 1; }
  int threads(Hands hands) const { return hands == Hands::kAll ? threads() : crew_; }

  // Starts a job of threads(hands) parts; returns the ticket for finish(). Jobs may be finished in
  // any order. REQUIRES: fewer than kMaxStarted unfinished jobs, and `context` lives until
  // finish().
  int start(Job job, void* context, Hands hands = Hands::kAll);

  // Does the caller's part and waits for the rest. Rethrows what a part threw; when several
  // threw, that of the lowest part.
  void finish(int ticket);

  // What threads other than the caller do between jobs: `spare` does a little of it, so that a job
  // need not wait long, and returns whether there is more. It must not throw. After a false it is
  // not called again before wake(), which any thread may call, a ring of `bell`, if there is one,
  // or the next job of that thread. Null: nothing; then nobody is in it any more, and nobody waits
  // for the last bell, when this returns. REQUIRES: no unfinished job.
  using Spare = bool (*)(void* context, int part);
  void set_spare(Spare spare, void* context, Bell* bell = nullptr);
  void wake() { call(Hands::kAll); }

  // How long the caller has waited for others, since the pool was made.
  uint64_t waited_ns() const { return waited_ns_; }

  template <class F>
  void run(const F& body) {
    finish(start([](void* context, int part) { (*static_cast<const F*>(context))(part); },
                 const_cast<F*>(&body)));
  }

  // Calls body(thread, item) for every item, and for those that bodies hand over meanwhile. Each
  // thread takes those of its own share first, the same every time, so that what they work on stays
  // in its cache; then what others have not begun. For items whose results do not depend on who
  // works on them. All are done even if some throw; what the lowest of those threw is rethrown. So
  // many `neighbours` are of one share, and begun in their order.
  template <class F>
  void for_each(int items, const F& body, int neighbours = 1, Hands hands = Hands::kCores) {
    do_all(
        items, neighbours, hands,
        [](void* context, int thread, int item) {
          (*static_cast<const F*>(context))(thread, item);
        },
        const_cast<F*>(&body));
  }

  // For the body of a long item: whether all are begun and a thread has nothing to do, so that a
  // part of this one could be handed over, as an item of any number.
  bool wants_more() const;
  void hand_over(int item);

 private:
  struct Slot {
    Job job = nullptr;
    void* context = nullptr;
    bool open = false;
    alignas(64) std::atomic<int> unfinished{0};
    std::vector<std::exception_ptr> thrown;  // by part
  };

  // Items that anyone may do. A thread may look at them long after they were done, while others
  // take their place: it can only have those of the number that it knows.
  using Item = void (*)(void* context, int thread, int item);
  struct Items {
    std::atomic<Item> body{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<int> count{0}, neighbours{1}, shares{1};
    std::atomic<uint32_t> number{0};
    alignas(64) std::atomic<int> unfinished{0};
    std::mutex throwing;  // of what follows
    int thrown_by = 0;
    std::exception_ptr thrown;
  };
  // Those of the present items that were handed over and that nobody has begun.
  struct HandedOver {
    std::atomic<int> count{0};
    std::mutex mutex;  // of what follows
    std::vector<int> items;
  };
  // The next item of a thread's share that nobody has begun, behind the number of all items; and
  // whether that thread has nothing to do.
  struct alignas(64) Claim {
    std::atomic<uint64_t> next{0};
    std::atomic<bool> idle{false};
    static constexpr uint64_t of(uint32_t number, int item) {
      return uint64_t{number} << 32 | static_cast<uint32_t>(item);
    }
  };

  // Jobs in the order in which they were started, for threads that do every one of them: the slot
  // of the n-th is at n % kMaxStarted. A thread that has not done its part of a job keeps that job
  // unfinished, so it is never more than kMaxStarted jobs behind.
  struct Queue {
    std::array<int, kMaxStarted> order{};
    alignas(64) std::atomic<uint64_t> started{0};
    Bell own_bell;
    std::atomic<Bell*> bell{&own_bell};  // that its threads wait for, and that calls them
  };

  Queue& queue_of(int thread) { return thread < crew_ ? of_cores_ : beyond_; }
  void call(Hands hands);
  void listen_to(Bell* bell);
  void do_all(int count, int neighbours, Hands hands, Item body, void* context);
  void publish(int count, int neighbours, int shares, Item body, void* context);
  void take_items(int thread);
  bool take_handed_over(int thread);
  bool all_begun() const;
  void wait(int thread, Bell& bell, uint32_t heard, Patience& patience);
  void do_item(Item body, void* context, int thread, int item);
  void wait_for(const std::atomic<int>& unfinished);
  void wait_for_items();
  void work(int part);
  void run_part(Slot& slot, int part);
  void stop();

  std::array<Slot, kMaxStarted> slots_;
  Items items_;
  HandedOver handed_over_;
  const int crew_;  // threads that have a core
  Queue of_cores_, beyond_;
  std::atomic<Spare> spare_{nullptr};
  void* spare_context_ = nullptr;  // written while nobody looks
  std::atomic<bool> stop_{false};
  Bell done_bell_;
  Patience patience_;  // of the caller
  uint64_t waited_ns_ = 0;
  std::vector<Claim> claims_;  // by thread
  std::vector<std::thread> team_;
};

}  // namespace flotilla
