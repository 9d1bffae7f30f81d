// Threads beyond the cores step envs that make them wait, and no others.
#include "flotilla/env/waiting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "flotilla/core/clock.h"
#include "flotilla/core/system.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"

namespace flotilla::test {
namespace {

void work_s(double seconds) {
  for (const uint64_t start = now_ns(); seconds_since(start) < seconds;) {
  }
}

TEST(Waiting, IsWhatASleepingThreadDoes) {
  Waiting waiting;
  const auto measure = [&](double worked_s, double slept_s) {
    const Waiting::Moment begin = Waiting::Moment::now();
    work_s(worked_s);
    if (slept_s > 0) sleep_s(slept_s);
    waiting.add_since(begin);
    return waiting.settle();
  };
  EXPECT_FALSE(waiting.settle()) << "nothing measured";
  EXPECT_FALSE(measure(0.01, 0));
  EXPECT_TRUE(measure(0, 0.1));
  EXPECT_TRUE(measure(0.001, 0.02));
  int forgotten = 0;
  while (forgotten < 20 && measure(0.01, 0)) ++forgotten;
  EXPECT_GT(forgotten, 0) << "half of what was before still counts";
  EXPECT_LT(forgotten, 20);
}

VecOptions more_threads_than_cores(int num_envs) {
  VecOptions options = serial(num_envs);
  options.backend = Backend::kThreads;
  options.threads = cpu_count() + 6;
  return options;
}

// How many threads act and step at once in the last of some steps that all envs make together.
int threads_together(const std::vector<std::string>& overrides, int steps) {
  const VecOptions options = more_threads_than_cores(2 * (cpu_count() + 6));
  Batch batch("faulty", overrides, options);
  batch.reset(1);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  const auto note = [&](Span) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  };
  using Note = decltype(note);
  const Actor actor{
      [](void* context, int, Span envs) { (*static_cast<const Note*>(context))(envs); },
      const_cast<void*>(static_cast<const void*>(&note))};
  for (int step = 0; step < steps; ++step) {
    ids.clear();
    for (int i = 0; i < options.num_envs; ++i) {  // the first choice that is not masked out
      const int32_t choice = batch.view().mask[3 * i] != 0 ? 0 : 1;
      std::memcpy(batch.actions_out() + sizeof(choice) * i, &choice, sizeof(choice));
    }
    batch.vec().begin(0, batch.actions(), batch.view(), actor);
    batch.vec().wait(0);
  }
  return static_cast<int>(ids.size());
}

int threads_alone(const std::vector<std::string>& overrides, int plays) {
  const EnvType& type = registry().find("faulty");
  const VecOptions options = more_threads_than_cores(2 * (cpu_count() + 6));
  RandomRun run(type, config_of(type, overrides), options, 7);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  for (int play = 0; play < plays; ++play) {
    ids.clear();
    run.play(5, [&](int, Span) {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
  }
  return static_cast<int>(ids.size());
}

TEST(ThreadsBeyondCores, StepEnvsThatWait) {
  EXPECT_EQ(threads_together({"sleep_ms=2"}, 3), cpu_count() + 6);
  EXPECT_GT(threads_alone({"sleep_ms=2"}, 3), cpu_count());
  EXPECT_GT(threads_alone({"sleep_ms=2"}, 1), cpu_count()) << "an evaluation plays once";
}

TEST(ThreadsBeyondCores, LeaveOtherEnvsAlone) {
  // Now and then even these wait, for another program or a sanitizer.
  int together = INT_MAX, alone = INT_MAX;
  for (int i = 0; i < 10; ++i) {
    together = std::min(together, threads_together({}, 130));
    alone = std::min(alone, threads_alone({}, 10));
  }
  EXPECT_EQ(together, cpu_count());
  EXPECT_LE(alone, cpu_count());
}

TEST(ThreadsBeyondCores, ChangeNoStep) {
  const auto hash = [](const VecOptions& options, bool together) {
    const EnvType& type = registry().find("faulty");
    RandomRun run(type, config_of(type, {"sleep_ms=0.1"}), options, 7);
    TrajectoryHash hash(run.vec().spec(), options.num_envs);
    for (int i = 0; i < 40; ++i) {
      together ? run.step() : run.play(1);
      hash.add(run.view());
    }
    return hash.hex();
  };
  const VecOptions options = more_threads_than_cores(37);
  const std::string expected = hash(serial(37), true);
  EXPECT_EQ(hash(options, true), expected);
  EXPECT_EQ(hash(options, false), expected);
}

}  // namespace
}  // namespace flotilla::test
