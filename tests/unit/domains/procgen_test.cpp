// The real procgen, where FLOTILLA_PROCGEN names its libenv.so (docs/libenv.md says how to get it):
// its games as environments, and our coinrun beside its own. Without it these tests skip.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "support/batch.h"

namespace flotilla::test {
namespace {

using Frame = std::vector<uint8_t>;

const char* procgen() { return std::getenv("FLOTILLA_PROCGEN"); }

// Episodes of each mode that are compared.
int episodes() {
  const char* text = std::getenv("FLOTILLA_PROCGEN_EPISODES");
  return text == nullptr ? 40 : std::atoi(text);
}

class Procgen : public testing::Test {
 protected:
  void SetUp() override {
    if (procgen() == nullptr) GTEST_SKIP() << "FLOTILLA_PROCGEN does not name its libenv.so";
  }
};

std::vector<std::string> settings(const std::vector<std::string>& more) {
  std::vector<std::string> all = {std::string("library=") + procgen()};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

VecOptions worker(int num_envs) {
  VecOptions options = serial(num_envs);
  options.backend = Backend::kProcesses;
  options.workers = 1;
  options.start_timeout_s = 600;  // it reads all pictures
  options.crash_dir = {};
  return options;
}

Frame frame_of(const Batch& batch, int env) {
  const size_t bytes = batch.spec().obs.row_bytes();
  const auto* row = reinterpret_cast<const uint8_t*>(batch.view().obs) + bytes * env;
  return {row, row + bytes};
}

float metric_of(const Batch& batch, int env, const std::string& name) {
  const std::vector<std::string>& names = batch.spec().metrics;
  const auto at = std::ranges::find(names, name);
  EXPECT_NE(at, names.end()) << name;
  return batch.view()
      .metrics[names.size() * static_cast<size_t>(env) + static_cast<size_t>(at - names.begin())];
}

TEST_F(Procgen, EveryGamePlaysAndGoesOnFromItsState) {
  constexpr const char* kGames =
      "env_name=bigfish,bossfight,caveflyer,chaser,climber,coinrun,dodgeball,fruitbot,heist,jumper,"
      "leaper,maze,miner,ninja,plunder,starpilot";
  constexpr int kEnvs = 16;
  for (const char* mode : {"distribution_mode=easy", "distribution_mode=hard"}) {
    SCOPED_TRACE(mode);
    Batch original("libenv", settings({kGames, mode}), worker(kEnvs));
    EXPECT_EQ(original.spec().obs.shape, (std::vector{64, 64, 3}));
    EXPECT_EQ(original.spec().action.describe(), "Discrete(15)");
    EXPECT_EQ(original.spec().metrics,
              (std::vector<std::string>{"prev_level_seed", "prev_level_complete", "level_seed"}));
    EXPECT_TRUE(original.vec().keeps_states());
    original.reset(5);
    uint64_t t = 0;
    for (; t < 200; ++t) original.step_randomly(5, t);
    for (int env = 0; env < kEnvs; ++env) {
      const Frame frame = frame_of(original, env);
      EXPECT_NE(std::ranges::count(frame, frame[0]), static_cast<int64_t>(frame.size())) << env;
    }
    Batch restored("libenv", settings({kGames, mode}), worker(kEnvs));
    restored.reset(3);
    restored.load(original.saved());
    for (int env = 0; env < kEnvs; ++env) {
      EXPECT_EQ(frame_of(restored, env), frame_of(original, env)) << "restored env " << env;
    }
    for (; t < 400; ++t) {
      original.step_randomly(5, t);
      restored.step_randomly(5, t);
      for (int env = 0; env < kEnvs; ++env) {
        ASSERT_EQ(restored.row(env), original.row(env)) << "env " << env << ", step " << t;
      }
    }
  }
}

// What an episode of the library was.
struct Episode {
  std::vector<int32_t> actions;
  std::vector<float> rewards;
  std::vector<Frame> frames;  // those before each action
};

size_t differing_pixels(const Frame& a, const Frame& b) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); i += 3) {
    count += a[i] != b[i] || a[i + 1] != b[i + 1] || a[i + 2] != b[i + 2];
  }
  return count;
}

// Plays it again in our game.
void compare(const std::string& mode, int64_t level, const Episode& episode, bool complete) {
  Batch ours(
      "coinrun",
      {"mode=" + mode, "look=monochrome", "num_levels=1", "start_level=" + std::to_string(level)},
      serial(1));
  SCOPED_TRACE(mode + " level " + std::to_string(level));
  ours.reset(0);
  const size_t length = episode.actions.size();
  for (size_t t = 0; t < length; ++t) {
    ASSERT_EQ(differing_pixels(frame_of(ours, 0), episode.frames[t]), 0u) << "state " << t;
    ours.step({episode.actions[t]});
    const StepView v = ours.view();
    ASSERT_EQ(v.reward[0], episode.rewards[t]) << "action " << t + 1 << " of " << length;
    ASSERT_EQ(v.terminated[0] + v.truncated[0], t + 1 == length)
        << "action " << t + 1 << " of " << length;
  }
  EXPECT_EQ(metric_of(ours, 0, "level_complete") != 0, complete);
  EXPECT_EQ(metric_of(ours, 0, "length"), static_cast<float>(length));
}

// Random actions, runs to the right with jumps, and actions that are kept for a while.
int32_t choose(int env, int32_t last, Rng& rng) {
  constexpr int32_t kMostlyOn[] = {8, 8, 8, 8, 8, 8, 8, 7, 7, 6, 5, 4, 3, 2, 1, 0};
  const uint64_t draw = rng.next_u64();
  if (env == 0) return static_cast<int32_t>(draw % 15);
  if (env == 1) return 8;
  return last >= 0 && draw % 8 != 0 ? last : kMostlyOn[(draw >> 8) % 16];
}

struct Compared {
  int episodes = 0, complete = 0, timeouts = 0;
  size_t steps = 0;
};

// `level`: that of all episodes; -1: what the library says of each.
Compared play(const std::string& mode, const std::vector<std::string>& more, int64_t level,
              int count) {
  constexpr int kEnvs = 8;
  std::vector<std::string> all = {"env_name=coinrun", "distribution_mode=" + mode,
                                  "use_monochrome_assets=true", "use_backgrounds=false",
                                  "save_state=false"};
  all.insert(all.end(), more.begin(), more.end());
  Batch theirs("libenv", settings(all), worker(kEnvs));
  theirs.reset(17);
  Rng rng(17, 0);
  std::vector<Episode> playing(kEnvs);
  std::vector<int32_t> actions(kEnvs, -1);
  Compared done;
  while (done.episodes < count && !testing::Test::HasFatalFailure()) {
    for (int env = 0; env < kEnvs; ++env) {
      Episode& episode = playing[static_cast<size_t>(env)];
      int32_t& action = actions[static_cast<size_t>(env)];
      action = choose(env, action, rng);
      episode.frames.push_back(frame_of(theirs, env));
      episode.actions.push_back(action);
    }
    theirs.step(actions);
    const StepView v = theirs.view();
    for (int env = 0; env < kEnvs; ++env) {
      Episode& episode = playing[static_cast<size_t>(env)];
      episode.rewards.push_back(v.reward[env]);
      if (v.terminated[env] == 0) continue;
      const auto of_it = static_cast<int64_t>(metric_of(theirs, env, "prev_level_seed"));
      const bool complete = metric_of(theirs, env, "prev_level_complete") != 0;
      compare(mode, level < 0 ? of_it : level, episode, complete);
      ++done.episodes;
      done.complete += complete;
      done.timeouts += episode.actions.size() == 1000;
      done.steps += episode.actions.size();
      episode = {};
      actions[static_cast<size_t>(env)] = -1;
    }
  }
  return done;
}

TEST_F(Procgen, OurCoinrunIsTheirs) {
  for (const char* mode : {"easy", "hard"}) {
    // Level seeds that a float holds exactly, as metrics do.
    const Compared all = play(mode, {"num_levels=16000000", "start_level=0"}, -1, episodes());
    std::printf("%s: %d episodes, %zu steps, %d with the coin, %d timeouts\n", mode, all.episodes,
                all.steps, all.complete, all.timeouts);
    EXPECT_GT(all.complete, 0);
  }
}

TEST_F(Procgen, OurLevelsAreTheirs) {
  for (const int64_t level : {INT64_C(97), INT64_C(2147483646)}) {
    play("hard", {"num_levels=1", "start_level=" + std::to_string(level)}, level, 8);
  }
}

}  // namespace
}  // namespace flotilla::test
