#include "flotilla/core/clock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace flotilla {
namespace {

void burn_cpu(double seconds) {
  const double until = process_cpu_seconds() + seconds;
  while (process_cpu_seconds() < until) {
  }
}

TEST(Clock, NowIsMonotonicAndInNanoseconds) {
  const uint64_t start = now_ns();
  uint64_t last = start;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t now = now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
  const uint64_t before = now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const uint64_t slept = now_ns() - before;
  EXPECT_GE(slept, 20'000'000u);
  EXPECT_LT(slept, 5'000'000'000u);
}

TEST(Clock, CpuTimeCountsWorkAndNotSleep) {
  const double start = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_cpu_seconds() - start, 0.1);
  const double before = process_cpu_seconds();
  std::thread worker([] { burn_cpu(0.05); });
  worker.join();
  EXPECT_GE(process_cpu_seconds() - before, 0.05) << "threads count";
}

TEST(Clock, CpuTimeOfAnotherProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    burn_cpu(0.1);
    const char done = 1;
    if (write(ready[1], &done, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char done = 0;
  ASSERT_EQ(read(ready[0], &done, 1), 1);
  const double seconds = process_cpu_seconds(child);
  EXPECT_GE(seconds, 0.1);
  EXPECT_LT(seconds, 5);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(process_cpu_seconds(child), 0);
  close(ready[0]);
  close(ready[1]);

  EXPECT_NEAR(process_cpu_seconds(getpid()), process_cpu_seconds(), 0.05);
}

TEST(Deadline, PassesWhenItsTimeHasCome) {
  const Deadline past = Deadline::after(0);
  EXPECT_TRUE(past.passed());
  EXPECT_EQ(past.remaining_ns(), 0u);

  const Deadline soon = Deadline::after(0.05);
  const uint64_t left = soon.remaining_ns();
  EXPECT_LE(left, 50'000'000u);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_TRUE(soon.passed());
  EXPECT_EQ(soon.remaining_ns(), 0u);

  const Deadline late = Deadline::after(3600);
  EXPECT_FALSE(late.passed());
  EXPECT_GT(late.remaining_ns(), 3'500'000'000'000u);
  EXPECT_LE(late.remaining_ns(), 3'600'000'000'000u);
}

TEST(Deadline, NeverNeverPasses) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().remaining_ns(), UINT64_MAX);
}

}  // namespace
}  // namespace flotilla
