// The game as a whole: known scores of simple policies, limits of levels, and the environment's
// options.
#include <gtest/gtest.h>

#include <set>

#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/dynamics.h"
#include "flotilla/domains/coinrun/level.h"
#include "flotilla/domains/coinrun/replay.h"
#include "support/error_text.h"

namespace flotilla::coinrun {
namespace {

CoinRun make_env(const std::vector<std::string>& settings) {
  Config config(CoinRun::schema());
  for (const std::string& setting : settings) config.apply_override(setting);
  return CoinRun(config);
}

// The mean return of one action over the levels [0, count).
double score(Mode mode, int action, int count) {
  double total = 0;
  State state;
  for (int32_t seed = 0; seed < count; ++seed) {
    begin_episode(state, seed, mode);
    StepResult result;
    while (!result.ended() && state.steps < kMostSteps) result = step(state, action);
    total += result.reached ? kReward : 0;
  }
  return total / count;
}

// The library has 6.64 and 6.07; over 4000 levels the standard error is 0.075.
TEST(CoinRun, RunningAndJumpingScoresAsInTheLibrary) {
  EXPECT_NEAR(score(Mode::kEasy, 8, 4000), 6.64, 0.25);
  EXPECT_NEAR(score(Mode::kHard, 8, 4000), 6.07, 0.25);
  EXPECT_EQ(score(Mode::kEasy, 7, 50), 0) << "no level is without a ledge";
}

TEST(CoinRun, LevelsKeepToTheirLimits) {
  State state;
  int fixtures = 0, enemies = 0, goal_row = 0;
  for (const Mode mode : {Mode::kEasy, Mode::kHard}) {
    for (int32_t seed = 0; seed < 5000; ++seed) {
      begin_episode(state, seed, mode);
      fixtures = std::max<int>(fixtures, state.level.fixture_count);
      enemies = std::max<int>(enemies, state.enemy_count);
      goal_row = std::max<int>(goal_row, state.level.goal_row);
      ASSERT_LT(state.level.goal_column, kSide - 1);
      ASSERT_EQ(state.level.at(state.level.goal_column, state.level.goal_row), Cell::kGoal);
    }
  }
  EXPECT_GT(fixtures, 20);
  EXPECT_LE(fixtures, kMostFixtures);
  EXPECT_GT(enemies, 10);
  EXPECT_LE(enemies, kMostEnemies);
  EXPECT_LT(goal_row, kBuiltRows);
}

TEST(CoinRun, EpisodesStayWithinTheirLevels) {
  const CoinRun env = make_env({"num_levels=7", "start_level=2147483640"});
  Rng rng(3, stream_of(Purpose::kTest, 0));
  std::set<int32_t> seeds;
  State state{};
  for (int i = 0; i < 200; ++i) {
    env.reset(state, rng);
    seeds.insert(state.level.seed);
  }
  EXPECT_EQ(seeds.size(), 7u);
  EXPECT_EQ(*seeds.begin(), 2147483640);
  EXPECT_EQ(*seeds.rbegin(), 2147483646);
}

// All but three levels are for training: the rest is one below and two above them.
TEST(CoinRun, HeldOutLevelsAreThoseThatTrainingDoesNotShow) {
  const CoinRun env = make_env({"levels=test", "num_levels=2147483644", "start_level=1"});
  std::set<int32_t> seen;
  Rng rng(5, stream_of(Purpose::kTest, 0));
  for (int i = 0; i < 100; ++i) {
    State state{};
    env.reset(state, rng);
    seen.insert(state.level.seed);
  }
  EXPECT_EQ(seen, (std::set<int32_t>{0, 2147483645, 2147483646}));
  EXPECT_EQ(test::error_text(ErrorCode::kUsage,
                             [] {
                               make_env({"levels=test", "num_levels=2147483647"});
                             }),
            "levels=test: num_levels leaves none");
}

TEST(CoinRun, AllLevelsAreDrawnWithoutALimit) {
  const CoinRun env = make_env({"start_level=100"});
  Rng rng(3, stream_of(Purpose::kTest, 0));
  State state{};
  int large = 0, small = 0;
  for (int i = 0; i < 200; ++i) {
    env.reset(state, rng);
    ASSERT_GE(state.level.seed, 0);
    (state.level.seed > 1'073'741'823 ? large : small) += 1;
  }
  EXPECT_GT(large, 70);
  EXPECT_GT(small, 70);
}

TEST(CoinRun, RefusesLevelsThatThereAreNot) {
  EXPECT_EQ(test::error_text(ErrorCode::kUsage,
                             [] {
                               make_env({"num_levels=8", "start_level=2147483640"});
                             }),
            "num_levels: level seeds end at 2147483646; from start_level 2147483640 expected at "
            "most 7, got 8");
  for (const char* bad : {"num_levels=-1", "start_level=-1", "start_level=2147483647",
                          "num_levels=2147483648", "mode=medium", "look=plain"}) {
    EXPECT_FALSE(test::error_text(ErrorCode::kUsage, [&] { make_env({bad}); }).empty()) << bad;
  }
}

TEST(CoinRun, AThousandStepsTruncate) {
  const CoinRun env = make_env({"look=monochrome"});
  EXPECT_EQ(env.spec().time_limit, 1000);
  State state{};
  env.begin(state, 0);
  Rng rng;
  const int32_t stand = 4;
  for (int t = 1; t <= 1000; ++t) {
    const Outcome outcome = env.step(state, ActionRow(&stand), rng);
    ASSERT_FALSE(outcome.terminated);
    ASSERT_EQ(outcome.truncated, t == 1000);
  }
  std::array<float, 3> metrics{};
  env.metrics(state, metrics);
  EXPECT_EQ(metrics, (std::array<float, 3>{0, 0, 1000}));
}

TEST(CoinRun, MetricsOfALevelThatWasCompleted) {
  const CoinRun env = make_env({"mode=hard", "look=monochrome"});
  State state{};
  env.begin(state, 0);
  Rng rng;
  const int32_t jump = 8;
  Outcome outcome;
  while (!outcome.terminated) outcome = env.step(state, ActionRow(&jump), rng);
  EXPECT_EQ(outcome.reward, 10);
  std::array<float, 3> metrics{};
  env.metrics(state, metrics);
  EXPECT_EQ(metrics, (std::array<float, 3>{1, 0, 63}));
}

TEST(Replay, EndsWithTheActions) {
  const Replay cut = replay(0, Mode::kHard, std::vector<int>(10, 8));
  EXPECT_EQ(cut.end, "cut");
  EXPECT_EQ(cut.length, 10);
  const Replay whole = replay(0, Mode::kHard, std::vector<int>(500, 8));
  EXPECT_EQ(whole.end, "goal");
  EXPECT_EQ(whole.length, 63);
  EXPECT_EQ(crc_text(whole.crc_rd), "e7095c94");
}

}  // namespace
}  // namespace flotilla::coinrun
