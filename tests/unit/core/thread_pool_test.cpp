#include "flotilla/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "flotilla/core/alloc_count.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/system.h"
#include "support/build.h"
#include "support/child.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

TEST(PartOf, CoversTheRangeOnceInOrder) {
  for (const int begin : {0, 5, 64}) {
    for (int size = 0; size < 150; size += size < 40 ? 1 : 13) {
      for (int parts = 1; parts <= 9; ++parts) {
        for (const int align : {1, 2, 7, 16, 64}) {
          int at = begin;
          for (int part = 0; part < parts; ++part) {
            const Span span = part_of({begin, begin + size}, part, parts, align);
            ASSERT_EQ(span.begin, at);
            ASSERT_GE(span.size(), 0);
            ASSERT_TRUE(span.end == begin + size || (span.end - begin) % align == 0);
            at = span.end;
          }
          ASSERT_EQ(at, begin + size) << size << " in " << parts << " by " << align;
        }
      }
    }
  }
}

TEST(PartOf, PartsDifferByOneBlockAtMost) {
  for (const int align : {1, 16}) {
    for (int parts = 1; parts <= 9; ++parts) {
      int smallest = 1 << 30, largest = 0;
      for (int part = 0; part < parts; ++part) {
        const int size = part_of({0, 1600}, part, parts, align).size();
        smallest = std::min(smallest, size);
        largest = std::max(largest, size);
      }
      EXPECT_LE(largest - smallest, align);
    }
  }
}

TEST(PartOf, LargeRangesDoNotOverflow) {
  const Span last = part_of({0, 2'000'000'000}, 1023, 1024, 1);
  EXPECT_EQ(last.end, 2'000'000'000);
  EXPECT_EQ(last.size(), 1'953'125);
}

TEST(ThreadPool, EveryPartRunsExactlyOnce) {
  for (int threads = 1; threads <= 9; ++threads) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.threads(), threads);
    std::vector<std::atomic<int>> runs(static_cast<size_t>(threads));
    for (int job = 0; job < 500; ++job) {
      pool.run([&](int part) { ++runs[static_cast<size_t>(part)]; });
    }
    for (const auto& count : runs) EXPECT_EQ(count.load(), 500) << threads << " threads";
  }
}

TEST(ThreadPool, PinnedThreadsStayOnCpusOfTheirOwn) {
  const std::vector<int> cpus = own_cpus();
  ThreadPool pool(static_cast<int>(cpus.size()), true);
  std::vector<std::vector<int>> allowed(cpus.size());
  pool.run([&](int part) { allowed[static_cast<size_t>(part)] = own_cpus(); });
  EXPECT_EQ(allowed[0], cpus) << "the caller goes where it likes";
  for (size_t part = 1; part < cpus.size(); ++part) {
    EXPECT_EQ(allowed[part], std::vector<int>{cpus[part]});
  }
  ThreadPool more(static_cast<int>(cpus.size()) + 1, true);
  more.run([&](int) { EXPECT_EQ(own_cpus(), cpus) << "there are too few for all"; });
}

TEST(ThreadPool, PartZeroIsTheCallers) {
  ThreadPool pool(3);
  std::thread::id ids[3];
  pool.run([&](int part) { ids[part] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
  EXPECT_NE(ids[1], ids[2]);
}

TEST(ThreadPool, ResultsDoNotDependOnTheNumberOfThreads) {
  const auto result = [](int threads) {
    ThreadPool pool(threads);
    std::vector<double> rows(1000);
    for (int job = 0; job < 20; ++job) {
      pool.run([&](int part) {
        const Span mine = part_of({0, 1000}, part, threads, 16);
        for (int i = mine.begin; i < mine.end; ++i) {
          Rng rng(7, stream_of(Purpose::kTest, static_cast<uint64_t>(i)),
                  static_cast<uint64_t>(job) * 4);
          rows[static_cast<size_t>(i)] = rows[static_cast<size_t>(i)] * 0.9 + rng.normal();
        }
      });
    }
    return rows;
  };
  const std::vector<double> expected = result(1);
  for (int threads = 2; threads <= 9; ++threads) EXPECT_EQ(result(threads), expected);
}

struct Sum {
  std::atomic<int> total{0};
  static void add(void* context, int part) { static_cast<Sum*>(context)->total += part + 1; }
};

TEST(ThreadPool, OverlappingJobsFinishInAnyOrder) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    const int whole = threads * (threads + 1) / 2;
    std::vector<int> order(ThreadPool::kMaxStarted);
    std::iota(order.begin(), order.end(), 0);
    do {
      Sum sums[ThreadPool::kMaxStarted];
      uint64_t tickets[ThreadPool::kMaxStarted];
      for (int j = 0; j < ThreadPool::kMaxStarted; ++j) {
        tickets[j] = pool.start(&Sum::add, &sums[j]);
      }
      for (const int j : order) {
        pool.finish(tickets[j]);
        ASSERT_EQ(sums[j].total.load(), whole);
      }
    } while (std::ranges::next_permutation(order).found);
  }
}

// Spare work: a little each time somebody says that there is some.
struct SpareWork {
  std::atomic<int> left{0}, done{0};

  static bool some(void* context, int) {
    auto& self = *static_cast<SpareWork*>(context);
    int left = self.left.load();
    while (left > 0 && !self.left.compare_exchange_weak(left, left - 1)) {
    }
    if (left <= 0) return false;
    ++self.done;
    return true;
  }
  bool reaches(int wanted) const {
    const Deadline deadline = Deadline::after(20);
    while (done.load() < wanted && deadline.remaining_ns() > 0) std::this_thread::yield();
    return done.load() == wanted;
  }
};

TEST(ThreadPool, SpareWorkIsDoneWhenSomebodySaysThatThereIsSome) {
  for (const int threads : {2, 3, cpu_count() + 2}) {
    ThreadPool pool(threads);
    SpareWork work;
    Bell bell;
    int wanted = 0;
    work.left = wanted += 5;  // before anybody could look
    pool.set_spare(&SpareWork::some, &work, &bell);
    ASSERT_TRUE(work.reaches(wanted)) << threads;
    for (int round = 0; round < 200; ++round) {
      work.left += 3;
      wanted += 3;
      round % 2 == 0 ? bell.ring() : pool.wake();
      ASSERT_TRUE(work.reaches(wanted)) << threads << ", round " << round;
    }
    pool.set_spare(nullptr, nullptr);
    work.left = 1;
    bell.ring();
    pool.wake();
    pool.run([](int) {});
    EXPECT_EQ(work.left.load(), 1) << threads;
  }
}

// Nobody stays behind at a bell that is no longer rung.
TEST(ThreadPool, BellsOfSpareWorkComeAndGo) {
  for (const int threads : {2, cpu_count() + 1}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 2000; ++round) {
      SpareWork work;
      const auto bell = std::make_unique<Bell>();
      pool.set_spare(&SpareWork::some, &work, round % 3 == 0 ? nullptr : bell.get());
      if (round % 2 == 0) bell->ring();
      Sum sum;
      pool.finish(pool.start(&Sum::add, &sum));
      ASSERT_EQ(sum.total.load(), threads * (threads + 1) / 2);
      pool.set_spare(nullptr, nullptr);
    }
  }
}

TEST(ThreadPool, ThreadsBeyondTheCoresAreCalledWhereAllAre) {
  const int cores = cpu_count(), all = cores + 5;
  ThreadPool pool(all);
  ASSERT_EQ(pool.threads(Hands::kCores), cores);
  ASSERT_EQ(pool.threads(Hands::kAll), all);
  for (int round = 0; round < 200; ++round) {
    const auto hands = [&](int job) {
      return (round >> job & 1) == 0 ? Hands::kAll : Hands::kCores;
    };
    Sum sums[ThreadPool::kMaxStarted];
    uint64_t tickets[ThreadPool::kMaxStarted];
    for (int j = 0; j < ThreadPool::kMaxStarted; ++j) {
      tickets[j] = pool.start(&Sum::add, &sums[j], hands(j));
    }
    for (int j = ThreadPool::kMaxStarted - 1; j >= 0; --j) {
      pool.finish(tickets[j]);
      const int parts = pool.threads(hands(j));
      ASSERT_EQ(sums[j].total.load(), parts * (parts + 1) / 2);
    }
  }
}

TEST(ThreadPool, ItemsForTheCoresWakeNobodyElse) {
  const int cores = cpu_count();
  ThreadPool pool(cores + 5);
  for (int round = 0; round < 100; ++round) {
    pool.for_each(64, [&](int thread, int) { EXPECT_LT(thread, cores); });
  }
}

TEST(ThreadPool, ItemsForAllMayWaitForEachOther) {
  const int threads = cpu_count() + 5;
  ThreadPool pool(threads);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> begun{0};
    pool.for_each(
        threads,
        [&](int, int) {
          ++begun;
          while (begun.load() < threads) std::this_thread::yield();
        },
        1, Hands::kAll);
    EXPECT_EQ(begun.load(), threads);
  }
}

TEST(ThreadPool, ALongUnfinishedJobDoesNotStopOthers) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    const int whole = threads * (threads + 1) / 2;
    Sum first;
    const uint64_t ticket = pool.start(&Sum::add, &first);
    for (int i = 0; i < 20; ++i) {  // never more than two unfinished
      Sum other;
      pool.finish(pool.start(&Sum::add, &other));
      ASSERT_EQ(other.total.load(), whole);
    }
    pool.finish(ticket);
    EXPECT_EQ(first.total.load(), whole);
  }
}

TEST(ThreadPool, TooManyJobsAreRefusedAndTheRestFinishes) {
  ThreadPool pool(2);
  Sum sums[ThreadPool::kMaxStarted + 1];
  std::vector<uint64_t> tickets;
  for (int j = 0; j < ThreadPool::kMaxStarted; ++j) {
    tickets.push_back(pool.start(&Sum::add, &sums[j]));
  }
  EXPECT_EQ(test::error_text(ErrorCode::kInternal,
                             [&] { pool.start(&Sum::add, &sums[ThreadPool::kMaxStarted]); }),
            "too many jobs started on one thread pool");
  for (const uint64_t ticket : tickets) pool.finish(ticket);
  EXPECT_EQ(sums[ThreadPool::kMaxStarted].total.load(), 0);
  pool.finish(pool.start(&Sum::add, &sums[ThreadPool::kMaxStarted]));
  EXPECT_EQ(sums[ThreadPool::kMaxStarted].total.load(), 3);
}

std::string thrown_by(ThreadPool& pool, uint32_t throwing_parts) {
  try {
    pool.run([&](int part) {
      if ((throwing_parts >> part & 1) != 0) {
        throw std::runtime_error("part " + std::to_string(part));
      }
    });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

TEST(ThreadPool, TheExceptionOfTheLowestPartIsRethrown) {
  for (const int threads : {1, 2, 4, 6}) {
    ThreadPool pool(threads);
    for (uint32_t parts = 0; parts < 1u << threads; ++parts) {
      std::string expected = "nothing";
      for (int part = threads - 1; part >= 0; --part) {
        if ((parts >> part & 1) != 0) expected = "part " + std::to_string(part);
      }
      ASSERT_EQ(thrown_by(pool, parts), expected);
    }
    Sum sum;
    pool.finish(pool.start(&Sum::add, &sum));
    EXPECT_EQ(sum.total.load(), threads * (threads + 1) / 2);
  }
}

TEST(ThreadPool, AnExceptionWaitsForTheOtherParts) {
  ThreadPool pool(4);
  for (int i = 0; i < 200; ++i) {
    std::atomic<int> done{0};
    EXPECT_THROW(pool.run([&](int part) {
      if (part == 0) throw std::runtime_error("first");
      std::this_thread::yield();
      ++done;
    }),
                 std::runtime_error);
    ASSERT_EQ(done.load(), 3) << "a part still ran when the job was over";
  }
}

TEST(ThreadPool, ManyEmptyJobsOnMoreThreadsThanCores) {
  const int jobs = test::kSanitized ? 5'000 : 100'000;
  ThreadPool pool(8);
  const uint64_t start = now_ns();
  for (int i = 0; i < jobs; ++i) pool.run([](int) {});
  const double took = seconds_since(start);
  EXPECT_LT(took, 60);
  RecordProperty("microseconds_per_job", std::to_string(took / jobs * 1e6));
}

TEST(ThreadPool, IdleThreadsUseNoCpu) {
  ThreadPool pool(8);
  pool.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until all sleep
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(process_cpu_seconds() - before, 0.05);
}

TEST(ThreadPool, JobsDoNotAllocate) {
  if (!can_count_allocations()) GTEST_SKIP();
  ThreadPool pool(4);
  std::atomic<int> runs{0};
  const auto run = [&] { pool.run([&](int) { ++runs; }); };
  run();
  const uint64_t before = allocation_count();
  for (int i = 0; i < 1000; ++i) run();
  EXPECT_EQ(allocation_count() - before, 0u);
  EXPECT_EQ(runs.load(), 4004);
}

TEST(ThreadPool, EndsWithJobsStartedButNotFinished) {
  Sum sum;
  {
    ThreadPool pool(3);
    pool.start(&Sum::add, &sum);
  }
  EXPECT_EQ(sum.total.load(), 2 + 3) << "the team does what was started; the caller's part is not";
}

TEST(ThreadPool, ThreadsTheSystemRefusesAreAnException) {
  if (test::kSanitized) GTEST_SKIP();  // their shadow memory does not fit under a limit
  const int status = test::status_of_child([] {
    // Room for a few stacks of 8 MiB, not for 500.
    const rlimit limit{rlim_t{256} << 20, rlim_t{256} << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
    try {
      ThreadPool pool(500);
      return 3;
    } catch (const std::exception&) {
      return 0;
    }
  });
  EXPECT_FALSE(WIFSIGNALED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_TRUE(test::exited_with(status, 0)) << status;
}

// Now as many threads as there are cores, now all: those beyond come late to what is not theirs.
Hands hands_of(int round) { return round % 2 == 0 ? Hands::kCores : Hands::kAll; }

TEST(ThreadPool, ForEachDoesEveryItemOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const int items : {0, 1, 2, 5, 64, 1000}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(items));
      for (int round = 1; round <= 4; ++round) {
        const auto count = [&](int thread, int item) {
          EXPECT_LT(thread, pool.threads(hands_of(round)));
          done[static_cast<size_t>(item)].fetch_add(1);
        };
        pool.for_each(items, count, 1, hands_of(round));
        for (const auto& count : done) EXPECT_EQ(count.load(), round);
      }
    }
  }
}

TEST(ThreadPool, ForEachLeavesNobodyIdleWhileAnotherIsBehind) {
  ThreadPool pool(2);
  std::atomic<bool> begun{false};
  std::atomic<int> by_other{0};
  const auto wait_for_another = [&](int thread, int) {
    // Thread 0 stays in its first item until the other has done all nine.
    if (thread == 0) {
      begun = true;
      while (by_other.load() < 9) std::this_thread::yield();
    } else {
      while (!begun) std::this_thread::yield();
      by_other.fetch_add(1);
    }
  };
  pool.for_each(10, wait_for_another, 1, Hands::kAll);
  EXPECT_EQ(by_other.load(), 9);
}

TEST(ThreadPool, ForEachDoesNotWaitForThreadsThatDoNothing) {
  ThreadPool pool(3);
  std::atomic<bool> kept{false}, release{false};
  auto keep = [&] {  // thread 1 is away, as if another program had its core
    kept = true;
    while (!release) std::this_thread::yield();
  };
  using Keep = decltype(keep);
  const int ticket = pool.start(
      [](void* context, int part) {
        if (part == 1) (*static_cast<Keep*>(context))();
      },
      &keep);
  while (!kept) std::this_thread::yield();
  std::atomic<int> done{0};
  for (int round = 0; round < 100; ++round) {
    pool.for_each(7, [&](int thread, int) {
      EXPECT_NE(thread, 1);
      ++done;
    });
  }
  EXPECT_EQ(done.load(), 700);
  release = true;
  pool.finish(ticket);
}

TEST(ThreadPool, AnItemHandsAPartOfItselfToWhoHasNothingToDo) {
  if (cpu_count() < 2) GTEST_SKIP() << "nobody has nothing to do";
  ThreadPool pool(2);
  std::atomic<int> taken_by{-1};
  pool.for_each(1, [&](int thread, int item) {
    if (item == 0) {
      while (!pool.wants_more()) std::this_thread::yield();
      pool.hand_over(1234);
      while (taken_by.load() == -1) std::this_thread::yield();
      EXPECT_NE(taken_by.load(), thread);
    } else {
      EXPECT_EQ(item, 1234);
      taken_by = thread;
    }
  });
  EXPECT_NE(taken_by.load(), -1);
}

TEST(ThreadPool, ForEachEndsWhenWhatWasHandedOverIsDone) {
  constexpr int kDepth = 8;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> done{0};
      const auto hand_over = [&](int, int item) {
        ++done;
        const int depth = item / 3;
        if (depth < kDepth) pool.hand_over(item + 3);
      };
      pool.for_each(3, hand_over, 1, hands_of(round));
      EXPECT_EQ(done.load(), 3 * (kDepth + 1));
    }
  }
}

TEST(ThreadPool, NothingIsWantedWhileSomeItemsAreNotBegun) {
  ThreadPool pool(2);
  std::atomic<int> begun{0};
  std::atomic<bool> wanted{false}, answered{false};
  pool.for_each(64, [&](int, int) {
    if (begun.fetch_add(1) == 0) {  // nobody begins a third until the answer is there
      wanted = pool.wants_more();
      answered = true;
    }
    while (!answered) std::this_thread::yield();
  });
  EXPECT_FALSE(wanted.load());
}

// Threads that come late look at items of which they know the number but not what became of them.
TEST(ThreadPool, ForEachOfChangingSizesOnMoreThreadsThanCores) {
  const int rounds = test::kSanitized ? 2'000 : 50'000;
  ThreadPool pool(7);
  std::vector<std::atomic<int>> done(97);
  for (int round = 0; round < rounds; ++round) {
    const int items = round * 31 % 97 + 1;
    const auto count = [&](int, int item) { ++done[static_cast<size_t>(item)]; };
    pool.for_each(items, count, 1, hands_of(round));
    for (int i = 0; i < items; ++i) ASSERT_EQ(done[static_cast<size_t>(i)].exchange(0), 1);
  }
}

TEST(ThreadPool, ForEachRethrowsWhatTheLowestItemThrew) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> done{0};
      try {
        const auto fail = [&](int, int item) {
          ++done;
          if (item % 7 == 5) throw std::runtime_error(std::to_string(item));
        };
        pool.for_each(30, fail, 1, hands_of(round));
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "5");
      }
      EXPECT_EQ(done.load(), 30);
      pool.for_each(3, [&](int, int) { ++done; });
      EXPECT_EQ(done.load(), 33);
    }
  }
}

}  // namespace
}  // namespace flotilla
