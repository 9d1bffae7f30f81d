#include "flotilla/domains/classic/catch.h"

#include <gtest/gtest.h>

#include <numeric>

#include "play.h"

namespace flotilla::classic {
namespace {

using CatchPlay = Play<Catch, uint8_t>;

constexpr int kPaddleLeft = 0, kPaddleStay = 1, kPaddleRight = 2;

int lit(const CatchPlay& play) {
  return static_cast<int>(std::count(play.obs.begin(), play.obs.end(), 255));
}

TEST(Catch, ImageHoldsBallAndPaddle) {
  CatchPlay play;
  ASSERT_EQ(play.obs.size(), 50u);
  play.state.ball_col = 4;
  play.observe();
  EXPECT_EQ(play.obs[4], 255);          // ball: row 0, column 4
  EXPECT_EQ(play.obs[9 * 5 + 2], 255);  // paddle: row 9, column 2
  EXPECT_EQ(lit(play), 2);

  play.step({kPaddleLeft, 0});
  EXPECT_EQ(play.obs[4], 0);
  EXPECT_EQ(play.obs[1 * 5 + 4], 255);
  EXPECT_EQ(play.obs[9 * 5 + 1], 255);
  EXPECT_EQ(lit(play), 2);
}

TEST(Catch, DirectionAndSpeedMoveThePaddleUpToTheBorder) {
  const int moved[3][2] = {{-1, -2}, {0, 0}, {1, 2}};
  for (int direction = 0; direction < 3; ++direction) {
    for (int speed = 0; speed < 2; ++speed) {
      CatchPlay play({"cols=9"});
      play.step({direction, speed});
      EXPECT_EQ(play.state.paddle_col, 4 + moved[direction][speed]);
    }
  }
  CatchPlay play;
  play.state.paddle_col = 1;
  play.step({kPaddleLeft, 1});
  EXPECT_EQ(play.state.paddle_col, 0);
  play.state.paddle_col = 3;
  play.step({kPaddleRight, 1});
  EXPECT_EQ(play.state.paddle_col, 4);
  EXPECT_THROW(play.step({3, 0}), std::invalid_argument);
  EXPECT_THROW(play.step({0, 2}), std::invalid_argument);
}

TEST(Catch, TheEndPaysOneForACatchAndTakesOneForAMiss) {
  for (int ball = 0; ball < 5; ++ball) {
    CatchPlay play;
    play.state.ball_col = static_cast<uint8_t>(ball);
    for (int step = 1; step < 9; ++step) {
      const Outcome outcome = play.step({kPaddleStay, 0});
      EXPECT_EQ(outcome.reward, 0);
      EXPECT_FALSE(outcome.terminated);
      EXPECT_EQ(play.metrics()[0], 0);
    }
    const Outcome last = play.step({kPaddleStay, 0});
    EXPECT_TRUE(last.terminated);
    EXPECT_EQ(last.reward, ball == 2 ? 1 : -1);
    EXPECT_EQ(play.metrics()[0], ball == 2 ? 1 : 0);
    EXPECT_EQ(lit(play), ball == 2 ? 1 : 2);
  }
}

TEST(Catch, TheBallStartsInEveryColumnEquallyOften) {
  CatchPlay play;
  std::array<int, 5> starts{};
  for (int i = 0; i < 5000; ++i) {
    play.reset();
    EXPECT_EQ(play.state.ball_row, 0);
    EXPECT_EQ(play.state.paddle_col, 2);
    ++starts[play.state.ball_col];
  }
  for (const int count : starts) EXPECT_NEAR(count, 1000, 150);  // 5 standard deviations
}

TEST(Catch, SpecFollowsTheConfig) {
  const Catch env(config_of<Catch>({"rows=24", "cols=16"}));
  EXPECT_NO_THROW(env.spec().validate());
  EXPECT_EQ(env.spec().obs.shape, (std::vector<int>{24, 16, 1}));
  EXPECT_EQ(env.spec().obs.type, ObsType::kUint8);
  EXPECT_EQ(env.spec().action.choices, (std::vector<int>{3, 2}));
  EXPECT_EQ(env.spec().metrics, std::vector<std::string>{"caught"});
  EXPECT_EQ(env.spec().time_limit, 0);
}

TEST(Catch, ObservationsStayInBoundsOverRandomPlay) {
  CatchPlay({"rows=2", "cols=1"}).check_random_play(100);
  CatchPlay({"rows=128", "cols=128"}).check_random_play(300);
  CatchPlay().check_random_play(20'000);
}

}  // namespace
}  // namespace flotilla::classic
