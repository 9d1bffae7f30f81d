// Golden numbers recorded from Gymnasium 1.4.0 with NumPy 2.4.6. Where they were recorded they hold
// to the last bit; the tolerances leave room for the sin and cos of another C library.
#include "flotilla/domains/classic/pendulum.h"

#include <gtest/gtest.h>

#include "play.h"

namespace flotilla::classic {
namespace {

constexpr double kTolerance = 1e-13;

TEST(Pendulum, SingleStepsMatchTheReference) {
  const struct {
    Pendulum::State before;
    float torque;
    Pendulum::State after;
    float reward;
    float obs[3];
  } cases[] = {
      {{0, 0}, 0.0F, {0, 0}, 0.0F, {0x1p+0F, 0.0F, 0.0F}},
      {{0x1.921fb54442d18p+1, 0},
       2.0F,
       {0x1.940b3a62fb237p+1, 0x1.3333333333335p-2},
       -0x1.3bf492p+3F,
       {-0x1.fff142p-1F, -0x1.eb8066p-7F, 0x1.333334p-2F}},
      {{0x1.3333333333333p-2, -0x1.6666666666666p-1},
       -0.77F,
       {0x1.14cb5c3b1e1ddp-2, -0x1.300e65b0d2d6p-1},
       -0x1.1de2e2p-3F,
       {0x1.ed68a4p-1F, 0x1.116f9cp-2F, -0x1.300e66p-1F}},
      {{-0x1.7333333333333p+1, 0x1.ff5c28f5c28f6p+2},
       5.0F,
       {-0x1.4p+1, 0x1p+3},
       -0x1.d9894cp+3F,
       {-0x1.9a2f7ep-1F, -0x1.326afp-1F, 0x1p+3F}},
      {{0x1.ep+2, -0x1.f99999999999ap+2},
       -1.3F,
       {0x1.c858e218d8123p+2, -0x1.d90e560f1e946p+2},
       -0x1.ee4b02p+2F,
       {0x1.52f8ccp-1F, 0x1.7fb8acp-1F, -0x1.d90e56p+2F}},
      {{-0x1.6666666666666p+3, 0x1.999999999999ap-2},
       0.1F,
       {-0x1.648f9cd371592p+3, 0x1.263dfbd928478p+0},
       -0x1.e20ae4p+0F,
       {0x1.2be288p-3F, 0x1.fa7b38p-1F, 0x1.263dfcp+0F}},
  };
  Play<Pendulum> play;
  for (const auto& c : cases) {
    play.state = c.before;
    const Outcome outcome = play.step_box(c.torque);
    EXPECT_NEAR(play.state.theta, c.after.theta, kTolerance);
    EXPECT_NEAR(play.state.theta_dot, c.after.theta_dot, kTolerance);
    EXPECT_FLOAT_EQ(outcome.reward, c.reward);
    EXPECT_FALSE(outcome.terminated || outcome.truncated);
    for (int i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(play.obs[i], c.obs[i]);
  }
}

TEST(Pendulum, ThirtyStepsMatchTheReference) {
  const struct {
    float torque;
    double theta, theta_dot;
    float reward;
  } want[] = {
      {0.0F, 0x1.44caec2d977d2p+1, 0x1.7f69ce3f5719ep-1, -0x1.909374p+2F},
      {0x1.91103ap+0F, 0x1.4dd0e6c55055dp+1, 0x1.68ef27b4e1dbap+0, -0x1.9fd146p+2F},
      {0x1.f29c28p+0F, 0x1.5b269dbf93664p+1, 0x1.0ab24b8d3d484p+1, -0x1.c0402p+2F},
      {0x1.b5a312p-1F, 0x1.6b4e101f6a8f2p+1, 0x1.4314ef7ccf30fp+1, -0x1.f29662p+2F},
      {-0x1.c52414p-1F, 0x1.7c0afa39cbe2ep+1, 0x1.4ec24a0f9a8b9p+1, -0x1.1634bep+3F},
      {-0x1.f47ed4p+0F, 0x1.8bba58085d474p+1, 0x1.39b354235bd7p+1, -0x1.301ac8p+3F},
      {-0x1.8ba7cap+0F, 0x1.9a2b41b72a754p+1, 0x1.20d241a807983p+1, -0x1.452842p+3F},
      {0x1.137a9cp-5F, 0x1.a857406cc96c3p+1, 0x1.1b6fe6306b4adp+1, -0x1.3f9beep+3F},
      {0x1.965ba2p+0F, 0x1.b73522fcb4e2ep+1, 0x1.2955b33e65463p+1, -0x1.29aa18p+3F},
      {0x1.f09566p+0F, 0x1.c690b29d1f5c1p+1, 0x1.332738885177dp+1, -0x1.15a662p+3F},
      {0x1.a60264p-1F, 0x1.d4cd5a2e9773ep+1, 0x1.1cbd175d61dc8p+1, -0x1.0145a4p+3F},
      {-0x1.d4844ap-1F, 0x1.dfc5913380c6cp+1, 0x1.b6c898c474f42p+0, -0x1.d7450ep+2F},
      {-0x1.f63d46p+0F, 0x1.e61f18d184378p+1, 0x1.fbfa6161133c8p-1, -0x1.ae50fep+2F},
      {-0x1.8622b6p+0F, 0x1.e8145cbee7881p+1, 0x1.394a745e125cp-2, -0x1.91c71ep+2F},
      {0x1.1370a4p-4F, 0x1.e71d9d6a73c57p+1, -0x1.346f2990b34dap-3, -0x1.8713cp+2F},
      {0x1.9b89a2p+0F, 0x1.e4bcab89b3c1ap+1, -0x1.7c972c78025ffp-2, -0x1.892c3ap+2F},
      {0x1.ee6ab2p+0F, 0x1.e153348639e2bp+1, -0x1.10f5311615abbp-1, -0x1.8fe68cp+2F},
      {0x1.96432ap-1F, 0x1.dbe40305d3a52p+1, -0x1.b2bf781ff33b6p-1, -0x1.99330cp+2F},
      {-0x1.e3c296p-1F, 0x1.d2ef018fdad11p+1, -0x1.66483a6ee122ep+0, -0x1.a9d644p+2F},
      {-0x1.f7d75ep+0F, 0x1.c5c2626c7541ep+1, -0x1.077c6ec3ef2f6p+1, -0x1.c93d6cp+2F},
      {-0x1.808166p+0F, 0x1.b54245d2a9ae8p+1, -0x1.4a023c03e7838p+1, -0x1.fb1d92p+2F},
      {0x1.9d100ap-4F, 0x1.a38dde4b38431p+1, -0x1.62181694dc651p+1, -0x1.1c51c6p+3F},
      {0x1.a099d8p+0F, 0x1.92c29624c7721p+1, -0x1.4fe1a300d0548p+1, -0x1.399d64p+3F},
      {0x1.ec1c36p+0F, 0x1.83c99f5df7a24p+1, -0x1.2b7347883c3bap+1, -0x1.50fb3ep+3F},
      {0x1.866688p-1F, 0x1.76156435c2767p+1, -0x1.12149f24276bdp+1, -0x1.373de4p+3F},
      {-0x1.f2ddep-1F, 0x1.687cbe4cf1a1cp+1, -0x1.0fecf630509ddp+1, -0x1.20050ap+3F},
      {-0x1.f94cfep+0F, 0x1.5a87b4bb16e5cp+1, -0x1.1724bf6516b06p+1, -0x1.0c60a2p+3F},
      {-0x1.7ac442p+0F, 0x1.4d2c217b50a9ep+1, -0x1.0b2780fb7cad3p+1, -0x1.f3a716p+2F},
      {0x1.1348c6p-3F, 0x1.4267f8c945acfp+1, -0x1.aea65bd1b7861p+0, -0x1.cd7d48p+2F},
      {0x1.a58be8p+0F, 0x1.3c0544028eee3p+1, -0x1.fed87e191b9bap-1, -0x1.a852ap+2F},
  };
  Play<Pendulum> play;
  play.state = {2.5, 0.3};
  for (size_t i = 0; i < std::size(want); ++i) {
    SCOPED_TRACE(i);
    EXPECT_FLOAT_EQ(play.step_box(want[i].torque).reward, want[i].reward);
    EXPECT_NEAR(play.state.theta, want[i].theta, kTolerance);
    EXPECT_NEAR(play.state.theta_dot, want[i].theta_dot, kTolerance);
  }
}

TEST(Pendulum, AnglesWrapToMinusPiInclusive) {
  constexpr double kPi = std::numbers::pi;
  EXPECT_EQ(Pendulum::wrapped(kPi), -kPi);
  EXPECT_EQ(Pendulum::wrapped(-kPi), -kPi);
  EXPECT_EQ(Pendulum::wrapped(0), 0);
  EXPECT_NEAR(Pendulum::wrapped(7 * kPi + 0.25), -kPi + 0.25, 1e-14);
  EXPECT_NEAR(Pendulum::wrapped(-7 * kPi - 0.25), kPi - 0.25, 1e-14);
}

TEST(Pendulum, TorqueAndSpeedAreClippedAndTheAngleIsNot) {
  Play<Pendulum> play, full;
  play.state = full.state = {1.0, 0.5};
  EXPECT_EQ(play.step_box(100).reward, full.step_box(2).reward);
  EXPECT_EQ(play.state.theta_dot, full.state.theta_dot);

  play.state = {std::numbers::pi / 2, 7.9};
  play.step_box(2);
  EXPECT_EQ(play.state.theta_dot, 8);
  for (int i = 0; i < 50; ++i) {  // keep it spinning: more than a turn
    play.state.theta_dot = 8;
    play.step_box(2);
  }
  EXPECT_GT(play.state.theta, 6 * std::numbers::pi);
}

// The cost belongs to the state before the step: at rest upright any first torque costs only
// itself.
TEST(Pendulum, CostIsThatOfTheStateBeforeTheStep) {
  Play<Pendulum> play;
  play.state = {0, 0};
  EXPECT_FLOAT_EQ(play.step_box(2).reward, -0.004F);
}

TEST(Pendulum, ResetDrawsAngleThenSpeed) {
  Play<Pendulum> play;
  for (int episode = 0; episode < 200; ++episode) {
    Rng copy = play.rng;
    play.reset();
    EXPECT_EQ(play.state.theta, copy.uniform(-std::numbers::pi, std::numbers::pi));
    EXPECT_EQ(play.state.theta_dot, copy.uniform(-1, 1));
    EXPECT_EQ(play.rng.position(), copy.position());
  }
}

TEST(Pendulum, SpecIsTheReferenceSpace) {
  const Pendulum env{Config(Pendulum::schema())};
  EXPECT_NO_THROW(env.spec().validate());
  EXPECT_EQ(env.spec().time_limit, 200);
  EXPECT_EQ(env.spec().action.low, std::vector<float>{-2});
  EXPECT_EQ(env.spec().action.high, std::vector<float>{2});
  EXPECT_EQ(env.spec().obs.high, (std::vector<float>{1, 1, 8}));
  EXPECT_EQ(env.spec().obs.low, (std::vector<float>{-1, -1, -8}));
}

TEST(Pendulum, TheWorstStepIsInsideTheRewardBounds) {
  Play<Pendulum> play;
  play.state = {std::numbers::pi, 8};
  const float reward = play.step_box(2).reward;
  EXPECT_NEAR(reward, -16.2736044, 2e-6);
  EXPECT_GE(reward, play.env.spec().reward_low);
}

TEST(Pendulum, ObservationsStayInBoundsOverRandomPlay) {
  Play<Pendulum> play;
  play.check_random_play(20'000);
}

}  // namespace
}  // namespace flotilla::classic
