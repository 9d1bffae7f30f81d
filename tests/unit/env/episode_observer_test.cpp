// Whoever observes episodes sees the last state of each, once, before the next one begins.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;
constexpr int kEnvs = 7;

TEST(EpisodeObserver, SeesTheLastStateOfEveryEpisode) {
  for (const Variant& variant : variants(kEnvs)) {
    if (variant.options.backend == Backend::kProcesses) continue;
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"time_limit=5"}, variant.options);
    std::mutex mutex;
    std::map<int, Script::State> seen;
    batch.vec().set_episode_observer(
        episode_observer<Script>([&](int env, const Script::State& state) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(seen.emplace(env, state).second) << "twice in one step";
        }));
    batch.reset(3);
    int episodes = 0;
    for (int t = 0; t < 20; ++t) {
      std::vector<int32_t> acts(kEnvs, kGo);
      acts[static_cast<size_t>(t % kEnvs)] = t % 2 == 0 ? kEnd : kCut;
      seen.clear();
      batch.step(acts);
      const StepView v = batch.view();
      for (int i = 0; i < kEnvs; ++i) {
        const bool ended = v.terminated[i] != 0 || v.truncated[i] != 0;
        ASSERT_EQ(seen.count(i), ended ? 1u : 0u) << "env " << i << ", step " << t;
        if (!ended) continue;
        ++episodes;
        EXPECT_EQ(static_cast<float>(seen[i].count), v.metrics[2 * i]);
        EXPECT_EQ(static_cast<float>(seen[i].start), v.metrics[2 * i + 1]);
        EXPECT_EQ(seen[i].noise, batch.final_obs(i)[2]);
      }
    }
    EXPECT_GT(episodes, 20);

    batch.vec().set_episode_observer(nullptr);
    batch.reset(3);
    seen.clear();
    batch.step(std::vector<int32_t>(kEnvs, kEnd));
    EXPECT_TRUE(seen.empty()) << "nobody looks any more";
  }
}

TEST(EpisodeObserver, WhatItThrowsIsAFailureOfTheEnv) {
  Batch batch("test_script", {}, serial(2));
  batch.vec().set_episode_observer(
      [](int, const void*) { throw std::runtime_error("cannot bear to look"); });
  batch.reset(3);
  batch.step({kGo, kGo});
  EXPECT_NE(error_text(ErrorCode::kEnvironment,
                       [&] {
                         batch.step({kGo, kEnd});
                       })
                .find("env 1 of 'test_script' failed in step: threw: cannot bear to look"),
            std::string::npos);
}

TEST(EpisodeObserver, IsRefusedWhereStatesAreElsewhere) {
  VecOptions options = serial(2);
  options.backend = Backend::kProcesses;
  Batch batch("test_script", {}, options);
  EXPECT_EQ(
      error_text(ErrorCode::kUsage,
                 [&] { batch.vec().set_episode_observer([](int, const void*) {}); }),
      "the episodes of 'test_script' cannot be observed: their states are not in this process "
      "(backend: serial and threads can)");
}

TEST(EpisodeObserver, IsNotChangedDuringAStep) {
  Batch batch("test_script", {}, serial(1));
  batch.reset(3);
  batch.put({kGo});
  batch.begin();
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { batch.vec().set_episode_observer(nullptr); }),
            "set_episode_observer() while group 0 steps");
  batch.vec().wait(0);
}

}  // namespace
}  // namespace flotilla::test
