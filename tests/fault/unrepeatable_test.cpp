// Envs whose steps cannot be made again: when their worker ends, they have failed.
#include <gtest/gtest.h>

#include <algorithm>

#include <csignal>

#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;
constexpr int kEnvs = 6;
constexpr const char* kKilled = "worker killed by signal 9 (SIGKILL) from outside";

VecOptions two_workers(OnFailure on_failure, int groups = 1) {
  VecOptions options = serial(kEnvs);
  options.backend = Backend::kProcesses;
  options.workers = 2;
  options.groups = groups;
  options.on_failure = on_failure;
  return options;
}

void go(Batch& batch) { batch.step(std::vector<int32_t>(kEnvs, kGo)); }

// The first draw of an env after its first failure.
float restarted(int env) {
  Rng rng = env_rng(3, env, 1);
  return static_cast<float>(rng.below(1000));
}

TEST(Unrepeatable, TheWorkerThatIsKilledTakesItsEnvsAlong) {
  Batch batch("test_once", {"time_limit=0"}, two_workers(OnFailure::kRestart));
  Batch expected("test_script", {"time_limit=0"}, serial(kEnvs));
  batch.reset(3);
  expected.reset(3);
  for (int t = 0; t < 4; ++t) {
    go(batch);
    go(expected);
  }
  kill(batch.vec().worker_pids()[0], SIGKILL);
  go(batch);
  go(expected);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.view().valid[i], 0);
    EXPECT_EQ(batch.obs(i), (std::vector<float>{0, restarted(i), 0})) << "a new episode";
  }
  for (int i = 3; i < kEnvs; ++i) EXPECT_EQ(batch.row(i), expected.row(i));
  const auto failures = batch.vec().take_failures();
  ASSERT_EQ(failures.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const FailureReport& failure = failures[static_cast<size_t>(i)];
    EXPECT_EQ(failure.env, i);
    EXPECT_EQ(failure.cause, kKilled);
    EXPECT_EQ(failure.step, 4u);
    EXPECT_FALSE(failure.repeated);
  }
  EXPECT_EQ(batch.vec().restarts(), 3);
  go(batch);
  for (int i = 0; i < kEnvs; ++i) EXPECT_EQ(batch.view().valid[i], 1) << "they go on";
}

TEST(Unrepeatable, ThoseThatWaitForActionsAreLostToo) {
  Batch batch("test_once", {"time_limit=0"}, two_workers(OnFailure::kDrop, 2));
  batch.reset(3);
  go(batch);
  kill(batch.vec().worker_pids()[0], SIGKILL);
  batch.put(std::vector<int32_t>(kEnvs, kGo));
  batch.begin(0);
  batch.vec().wait(0);  // the other group has not been told to step
  std::vector<int> lost;
  for (const FailureReport& failure : batch.vec().take_failures()) lost.push_back(failure.env);
  EXPECT_EQ(lost, (std::vector<int>{0, 4, 5})) << "of each group the part of the first worker";
  batch.begin(1);
  batch.vec().wait(1);
  for (int i = 0; i < kEnvs; ++i) {
    EXPECT_EQ(batch.view().valid[i], std::ranges::count(lost, i) > 0 ? 0 : 1) << i;
  }
}

TEST(Unrepeatable, ADeathWhileAllAreResetCostsNothing) {
  Batch batch("test_once", {"reset=slow", "hang_s=0.05"}, two_workers(OnFailure::kRestart, 2));
  Batch expected("test_script", {}, serial(kEnvs));
  batch.reset(3);
  kill(batch.vec().worker_pids()[0], SIGKILL);
  batch.reset(4);  // found dead in the first group's reset; the second follows
  expected.reset(4);
  EXPECT_EQ(batch.rows(), expected.rows());
  for (const FailureReport& failure : batch.vec().take_failures()) EXPECT_TRUE(failure.repeated);
}

TEST(Unrepeatable, StopsTheRunWhereFailuresDo) {
  Batch batch("test_once", {}, two_workers(OnFailure::kStop));
  batch.reset(3);
  kill(batch.vec().worker_pids()[1], SIGKILL);
  EXPECT_NE(error_text(ErrorCode::kEnvironment, [&] { go(batch); })
                .find(std::string("env 3 of 'test_once' failed in step: ") + kKilled),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla::test
