// What the oracle learns from: instances as it will be asked for, and routes of the solver to
// imitate.
#pragma once

#include <cstdint>
#include <future>
#include <vector>

#include "flotilla/core/thread_pool.h"
#include "flotilla/domains/dvrp/data/instance.h"

namespace flotilla::dvrp {

// How many requests an instance has.
struct LessonSizes {
  int fewest = 1, most = 30;
  bool by_doubling = false;  // 10 to 20 as often as 100 to 200; otherwise all numbers as often
};

// The first requests of a day, so many of them; in two of three instances every second window is
// shifted. Determinism: the same (seed, index) give the same instance.
Instance draw_lesson(const Data& data, const LessonSizes& sizes, uint64_t seed, uint64_t index);

struct Lesson {
  Instance instance;
  std::vector<int> sequence;  // nodes one after the other, see batch.h
};

// Lessons in chunks, the next of which is solved by threads of its own while the last ones are
// learnt. Determinism: the chunks do not depend on timing or threads.
class Teacher {
 public:
  struct Options {
    LessonSizes sizes;
    int iterations = 1500, chunk = 1024;
    uint64_t seed = 0, first_chunk = 0;
    int threads = 1;
  };
  // `data` must outlive it.
  Teacher(const Data& data, const Options& options);
  std::vector<Lesson> next();

 private:
  std::vector<Lesson> solve_chunk(uint64_t chunk);

  const Data& data_;
  const Options options_;
  uint64_t chunk_;
  ThreadPool pool_;
  std::future<std::vector<Lesson>> coming_;
};

}  // namespace flotilla::dvrp
