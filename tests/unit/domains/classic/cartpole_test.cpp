// Golden numbers recorded from Gymnasium 1.4.0 with NumPy 2.4.6. Where they were recorded they hold
// to the last bit; the tolerances leave room for the sin and cos of another C library.
#include "flotilla/domains/classic/cartpole.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "play.h"

namespace flotilla::classic {
namespace {

void expect_near(const CartPole::State& got, const CartPole::State& want) {
  constexpr double kTolerance = 1e-13;
  EXPECT_NEAR(got.x, want.x, kTolerance);
  EXPECT_NEAR(got.x_dot, want.x_dot, kTolerance);
  EXPECT_NEAR(got.theta, want.theta, kTolerance);
  EXPECT_NEAR(got.theta_dot, want.theta_dot, kTolerance);
}

TEST(CartPole, SingleStepsMatchTheReference) {
  const struct {
    CartPole::State before;
    int action;
    CartPole::State after;
    bool terminated;
  } cases[] = {
      {{0, 0, 0, 0}, 1, {0, 0x1.8f9c18f9c18fap-3, 0, -0x1.2bb512bb512bbp-2}, false},
      {{0, 0, 0, 0}, 0, {0, -0x1.8f9c18f9c18fap-3, 0, 0x1.2bb512bb512bbp-2}, false},
      {{0x1.fbe76c8b43958p-6, -0x1.ae147ae147ae1p-2, 0x1.16872b020c49cp-6, 0x1.51eb851eb851fp-2},
       0,
       {0x1.72474538ef34ep-6, -0x1.3b106fa2c9d76p-1, 0x1.82a9930be0deep-6, 0x1.4188920660616p-1},
       false},
      {{-0x1.b333333333333p+0, 0x1.4p+1, -0x1.999999999999ap-3, -0x1.8cccccccccccdp+1},
       1,
       {-0x1.a666666666666p+0, 0x1.5905b912898dp+1, -0x1.0c49ba5e353f8p-2, -0x1.b90fca9c660a9p+1},
       true},
      {{0x1.31eb851eb851fp+1, 0x1.f5c28f5c28f5cp-2, 0x1.999999999999ap-5, -0x1.3333333333333p-1},
       1,
       {0x1.332ca57a786c2p+1, 0x1.5e681ddd43464p-1, 0x1.374bc6a7ef9dcp-5, -0x1.c0c7bc8700128p-1},
       false},
      {{0x1.999999999999ap-2, -0x1.199999999999ap+0, 0x1.aca57a786c227p-3, 0x1.ccccccccccccdp-1},
       0,
       {0x1.83126e978d4fep-2, -0x1.4c188a4b732b8p+0, 0x1.d182a9930be0ep-3, 0x1.4020f8e3c2d3p+0},
       true},
  };
  Play<CartPole> play;
  for (const auto& c : cases) {
    play.state = c.before;
    const Outcome outcome = play.step({c.action});
    expect_near(play.state, c.after);
    EXPECT_EQ(outcome.terminated, c.terminated);
    EXPECT_FALSE(outcome.truncated);
    EXPECT_EQ(outcome.reward, 1.0F);
  }
}

TEST(CartPole, ThirtyStepsMatchTheReference) {
  const std::string actions = "101010101010101010101010101101";
  const CartPole::State want[] = {
      {0x1.3dd97f62b6ae8p-6, 0x1.50f315994d4c4p-3, 0x1.495182a9930bep-5, -0x1.14462d68c0304p-2},
      {0x1.73c2f37b3dedep-6, -0x1.fe4aaa520045p-6, 0x1.1d1d526fdab24p-5, 0x1.2112efdd6d508p-5},
      {0x1.698e41feb8cdcp-6, 0x1.4ec443cde1023p-3, 0x1.22e56179671f6p-5, -0x1.f83f58dce5f68p-3},
      {0x1.9f1e4cd7fb867p-6, -0x1.0760324fe45cp-5, 0x1.f51cc935dca6bp-6, 0x1.d6a9fae7f7d9p-5},
      {0x1.949555123a122p-6, 0x1.4cd7491973dd5p-3, 0x1.03f8314da67b8p-5, -0x1.cdab2c7796054p-3},
      {0x1.c9d67f7cb3025p-6, -0x1.0eab8d998458p-5, 0x1.be126ff8ce8fcp-6, 0x1.3bcad53a782a4p-4},
      {0x1.bf02d5fbadb72p-6, 0x1.4b1f2497a5d1bp-3, 0x1.d755dd30af37p-6, -0x1.a7acc01815ap-3},
      {0x1.f3fd94286c162p-6, -0x1.15393ba60539p-5, 0x1.938c24dae931ep-6, 0x1.841307bc7674cp-4},
      {0x1.e8e6cf3642eaep-6, 0x1.49903f2b112bcp-3, 0x1.b297e808b53b3p-6, -0x1.8541ab4a1bc16p-3},
      {0x1.0ed0dd4ca7f3dp-5, -0x1.1b35c0d3492p-5, 0x1.744ff5967359bp-6, 0x1.c619e6cdc09ep-4},
      {0x1.0926d452ab9c2p-5, 0x1.48202382837c3p-3, 0x1.98a3f3926e47ap-6, -0x1.658173800782cp-3},
      {0x1.2366d729e9542p-5, -0x1.20c975628125cp-5, 0x1.5f7084ee9609cp-6, 0x1.01ce9545f7cc4p-3},
      {0x1.1da0405605773p-5, 0x1.46c53bb24c349p-3, 0x1.88b04ae54d0bbp-6, -0x1.47977af29f002p-3},
      {0x1.37c4828d3ec31p-5, -0x1.26198fdf2e1p-5, 0x1.544622be7b492p-6, 0x1.1f1bde1cafdacp-3},
      {0x1.31e2b7fe8aa4p-5, 0x1.4576939e6059ep-3, 0x1.82361d526e766p-6, -0x1.2abd7955af662p-3},
      {0x1.4bec34719c96bp-5, -0x1.2b491a8c47638p-5, 0x1.5269b7fd0ab7fp-6, 0x1.3bb63dee42578p-3},
      {0x1.45efdcdf72337p-5, 0x1.442b9f38761ffp-3, 0x1.84ed4704717e4p-6, -0x1.0e365c48860ap-3},
      {0x1.5fdedf5ed7cfap-5, -0x1.3079d8db71ef4p-5, 0x1.59b1613647912p-6, 0x1.5858239e98ae6p-3},
      {0x1.59c7f4a222551p-5, 0x1.42dc037a1c37ep-3, 0x1.90c9b8d4c6656p-6, -0x1.e292dea2c07p-4},
      {0x1.739c1ddf1a598p-5, -0x1.35cd21ec39bd4p-5, 0x1.6a2e9cc7c13dbp-6, 0x1.75b9c1dce12p-3},
      {0x1.6d69ef1cf03c2p-5, 0x1.417f60f8891d2p-3, 0x1.a5fa69e0db056p-6, -0x1.a67b5968de284p-4},
      {0x1.8722344f8a906p-5, -0x1.3b64b4e7e74d4p-5, 0x1.842dfc53589bcp-6, 0x1.9495b4434bcb6p-3},
      {0x1.80d363e480d16p-5, 0x1.400d1eeedd5e1p-3, 0x1.c4e9c73f64bc5p-6, -0x1.66aa32f3d1f68p-4},
      {0x1.9a6e0a350d684p-5, -0x1.41638bd0f97dcp-5, 0x1.a83852880c423p-6, 0x1.b5ada21bb8dbp-3},
      {0x1.940087693160ap-5, 0x1.3e7c35a06afdbp-3, 0x1.ee3f9fab34135p-6, -0x1.21901ee19b74cp-4},
      {0x1.ad7b1b0fa0563p-5, -0x1.47eeb10d55ba4p-5, 0x1.d7155fc21d662p-6, 0x1.d9cefb6f4fbep-3},
      {0x1.a6ec17851e9f4p-5, 0x1.3cc2f6ff0afe5p-3, 0x1.1172491d298f1p-5, -0x1.ab015fb496eap-5},
      {0x1.c0435e7acd94ep-5, 0x1.65adff6726578p-2, 0x1.08e804a3ca617p-5, -0x1.561c34f3725cp-2},
      {0x1.f97dedbe81cbdp-5, 0x1.3ad69c44844e9p-3, 0x1.a4565ebc3cf76p-6, -0x1.012489cb10198p-5},
      {0x1.0956e8a48ddedp-4, 0x1.64d67e1ab9b26p-2, 0x1.9a0d3a80ea67p-6, -0x1.437319285139fp-2},
  };
  Play<CartPole> play;
  play.state = {0.02, -0.03, 0.04, 0.01};
  for (size_t i = 0; i < actions.size(); ++i) {
    EXPECT_FALSE(play.step({actions[i] - '0'}).terminated);
    SCOPED_TRACE(i);
    expect_near(play.state, want[i]);
  }
}

// Positions move by the velocity before the step, so with velocity 0 they stay where they are put.
TEST(CartPole, TheLimitsThemselvesAreInside) {
  const double beyond_x = std::nextafter(CartPole::kXLimit, 3);
  const double beyond_theta = std::nextafter(CartPole::kThetaLimit, 1);
  const struct {
    double x, theta;
    bool terminated;
  } cases[] = {{CartPole::kXLimit, 0, false},
               {-CartPole::kXLimit, 0, false},
               {beyond_x, 0, true},
               {-beyond_x, 0, true},
               {0, CartPole::kThetaLimit, false},
               {0, -CartPole::kThetaLimit, false},
               {0, beyond_theta, true},
               {0, -beyond_theta, true}};
  Play<CartPole> play;
  for (const auto& c : cases) {
    for (const int action : {0, 1}) {
      play.state = {c.x, 0, c.theta, 0};
      EXPECT_EQ(play.step({action}).terminated, c.terminated) << c.x << ' ' << c.theta;
    }
  }
}

TEST(CartPole, ResetDrawsFourNumbersInOrder) {
  Play<CartPole> play;
  for (int episode = 0; episode < 200; ++episode) {
    Rng copy = play.rng;
    play.reset();
    for (const double value :
         {play.state.x, play.state.x_dot, play.state.theta, play.state.theta_dot}) {
      EXPECT_EQ(value, copy.uniform(-0.05, 0.05));
      EXPECT_LT(std::abs(value), 0.05);
    }
    EXPECT_EQ(play.rng.position(), copy.position());
  }
}

TEST(CartPole, SpecIsTheReferenceSpace) {
  const CartPole env{Config(CartPole::schema())};
  const EnvSpec& spec = env.spec();
  EXPECT_NO_THROW(spec.validate());
  EXPECT_EQ(spec.time_limit, 500);
  EXPECT_EQ(spec.action.describe(), "Discrete(2)");
  ASSERT_EQ(spec.obs.shape, std::vector<int>{4});
  EXPECT_EQ(spec.obs.high[0], 4.8F);
  EXPECT_EQ(spec.obs.high[2], 0x1.aceeap-2F);  // 24 degrees
  EXPECT_TRUE(std::isinf(spec.obs.high[1]) && std::isinf(spec.obs.high[3]));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(spec.obs.low[i], -spec.obs.high[i]);
  EXPECT_EQ(Play<CartPole>({"time_limit=7"}).env.spec().time_limit, 7);
}

TEST(CartPole, ObservationsStayInBoundsOverRandomPlay) {
  Play<CartPole> play;
  play.check_random_play(20'000);
}

TEST(CartPole, StepsOfManyAreThoseOfEach) {
  const CartPole env{Config(CartPole::schema())};
  Rng rng(11, stream_of(Purpose::kTest, 0));
  for (const size_t count : {1, 2, 15, 16, 17, 64}) {
    std::vector<CartPole::State> each(count), many;
    std::vector<CartPole::State*> states;
    std::vector<int32_t> actions(count);
    for (size_t i = 0; i < count; ++i) {
      each[i] = {.x = rng.uniform(-3, 3),
                 .x_dot = rng.uniform(-4, 4),
                 .theta = rng.uniform(-0.3, 0.3),
                 .theta_dot = rng.uniform(-4, 4)};
      actions[i] = static_cast<int32_t>(rng.below(2));
    }
    many = each;
    for (CartPole::State& state : many) states.push_back(&state);
    std::vector<Outcome> outcomes(count);
    env.step_many(states, ActionRow(actions.data()), outcomes);
    for (size_t i = 0; i < count; ++i) {
      const Outcome alone = env.step(each[i], ActionRow(&actions[i]), rng);
      EXPECT_EQ(std::memcmp(&many[i], &each[i], sizeof(CartPole::State)), 0)
          << i << " of " << count;
      EXPECT_EQ(outcomes[i].terminated, alone.terminated);
      EXPECT_EQ(outcomes[i].reward, alone.reward);
    }
  }
}

TEST(CartPole, AnActionThatDoesNotExistIsRefused) {
  Play<CartPole> play;
  EXPECT_THROW(play.step({2}), std::invalid_argument);
  EXPECT_THROW(play.step({-1}), std::invalid_argument);
}

}  // namespace
}  // namespace flotilla::classic
