#include "flotilla/domains/classic/faulty.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "play.h"

namespace flotilla::classic {
namespace {

static_assert(MaskedEnv<Faulty>);

std::array<uint8_t, 3> mask_of(const Play<Faulty>& play) {
  std::array<uint8_t, 3> mask{};
  play.env.mask(play.state, mask);
  return mask;
}

// Steps with the first legal choice.
Outcome step_legal(Play<Faulty>& play) {
  const auto mask = mask_of(play);
  return play.step({mask[0] != 0 ? 0 : 1});
}

TEST(Faulty, IsHarmlessByDefault) {
  Play<Faulty> play;
  for (int episode = 0; episode < 20; ++episode) {
    play.reset();
    for (int i = 0; i < 100; ++i) {
      const Outcome outcome = step_legal(play);
      EXPECT_FALSE(outcome.terminated || outcome.truncated);
    }
  }
  EXPECT_EQ(play.env.spec().time_limit, 100);
  EXPECT_NO_THROW(play.env.spec().validate());
}

TEST(Faulty, OnOddStepsOneChoiceIsMaskedOut) {
  Play<Faulty> play;
  using Mask = std::array<uint8_t, 3>;
  EXPECT_EQ(mask_of(play), (Mask{1, 1, 1}));
  play.step({2});
  EXPECT_EQ(mask_of(play), (Mask{1, 0, 1}));  // 1 mod 3
  play.step({2});
  EXPECT_EQ(mask_of(play), (Mask{1, 1, 1}));
  play.step({2});
  EXPECT_EQ(mask_of(play), (Mask{0, 1, 1}));  // 3 mod 3
  play.step({2});
  play.step({1});
  EXPECT_EQ(mask_of(play), (Mask{1, 1, 0}));  // 5 mod 3
}

TEST(Faulty, AnIllegalChoiceIsRefusedByName) {
  Play<Faulty> play;
  play.step({1});
  try {
    play.step({1});
    ADD_FAILURE() << "choice 1 was accepted after step 1";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "faulty: choice 1 is masked out after step 1");
  }
  EXPECT_EQ(play.state.steps, 1);
  EXPECT_THROW(play.step({3}), std::invalid_argument);
}

TEST(Faulty, ObservationIsFractionChoiceWalkParity) {
  Play<Faulty> play({"time_limit=4"});
  EXPECT_EQ(play.obs, (std::vector<float>{0, -1, 0, 0}));
  Rng copy = play.rng;
  const Outcome outcome = play.step({2});
  EXPECT_EQ(outcome.reward, 2);
  EXPECT_EQ(play.obs,
            (std::vector<float>{0.25F, 2, static_cast<float>(copy.uniform(-0.1, 0.1)), 1}));
  EXPECT_EQ(play.rng.position(), copy.position());
}

TEST(Faulty, TheWalkStaysInBounds) {
  Play<Faulty> play;
  float widest = 0;
  for (int i = 0; i < 20'000; ++i) {
    play.state.steps = 0;
    play.step({0});
    ASSERT_LE(std::abs(play.obs[2]), 1);
    widest = std::max(widest, std::abs(play.obs[2]));
  }
  EXPECT_EQ(widest, 1);
}

TEST(Faulty, ThrowsAtTheStepItWasTold) {
  Play<Faulty> play({"fault=throw", "fault_step=7"});
  for (int i = 0; i < 6; ++i) EXPECT_NO_THROW(step_legal(play));
  const Faulty::State before = play.state;
  try {
    step_legal(play);
    ADD_FAILURE() << "step 7 did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "faulty: told to throw at step 7");
  }
  EXPECT_EQ(play.state.steps, before.steps);
}

TEST(Faulty, TheChanceOfAFaultIsDrawnFromTheGenerator) {
  Play<Faulty> play({"fault=throw", "fault_step=1", "fault_probability=0.25"});
  int faults = 0;
  for (int i = 0; i < 4000; ++i) {
    play.state.steps = 0;
    try {
      play.step({0});
    } catch (const std::runtime_error&) {
      ++faults;
    }
  }
  EXPECT_NEAR(faults, 1000, 140);  // 5 standard deviations
}

TEST(Faulty, CanFailInReset) {
  const Faulty env(config_of<Faulty>({"fault=throw", "where=reset"}));
  Faulty::State state{};
  Rng rng(1, stream_of(Purpose::kTest, 0));
  EXPECT_THROW(env.reset(state, rng), std::runtime_error);

  Play<Faulty> never({"fault=throw", "where=reset", "fault_probability=0"});
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(step_legal(never));
}

// A child process that takes one step with this fault and exits with 0 if it comes back from it.
pid_t start_child(const char* fault) {
  const pid_t child = fork();
  if (child != 0) return child;
  // The signals' own effect, whatever handlers the test program or a sanitizer installed.
  std::signal(SIGSEGV, SIG_DFL);
  std::signal(SIGABRT, SIG_DFL);
  try {
    Play<Faulty> play({fault, "fault_step=1"});
    play.step({0});
    std::_Exit(0);
  } catch (...) {
    std::_Exit(1);
  }
}

int status_after(const char* fault) {
  int status = 0;
  waitpid(start_child(fault), &status, 0);
  return status;
}

TEST(Faulty, DiesTheWayItWasTold) {
  const int exited = status_after("fault=exit");
  EXPECT_TRUE(WIFEXITED(exited) && WEXITSTATUS(exited) == 7);
  const int aborted = status_after("fault=abort");
  EXPECT_TRUE(WIFSIGNALED(aborted) && WTERMSIG(aborted) == SIGABRT);
  const int crashed = status_after("fault=segv");
  EXPECT_TRUE(WIFSIGNALED(crashed) && WTERMSIG(crashed) == SIGSEGV);
  const int fine = status_after("fault=none");
  EXPECT_TRUE(WIFEXITED(fine) && WEXITSTATUS(fine) == 0);
}

TEST(Faulty, HangsUntilItIsKilled) {
  const pid_t child = start_child("fault=hang");
  usleep(100'000);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0) << "it returned";
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

}  // namespace
}  // namespace flotilla::classic
