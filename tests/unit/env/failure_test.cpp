// Environments that throw or hang, in every back end: who is named, what the row says, what
// becomes of the others.
#include "flotilla/env/failure.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "flotilla/core/system.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;

template <class F>
std::string failure_text(F&& call) {
  try {
    call();
  } catch (const EnvFailure& failure) {
    EXPECT_EQ(failure.code(), ErrorCode::kEnvironment);
    EXPECT_EQ(static_cast<int>(failure.code()), 3) << "the exit status";
    return failure.what();
  }
  return "no failure";
}

VecOptions with(VecOptions options, OnFailure policy, int budget = 100) {
  options.on_failure = policy;
  options.restart_budget = budget;
  return options;
}

// The first observation of an env's episode that begins after its n-th failure.
std::vector<float> fresh_obs(uint64_t seed, int env, uint64_t failures) {
  return {0, static_cast<float>(env_rng(seed, env, failures).below(1000)), 0};
}

TEST(Stop, TheReplayIsOfferedWithTheProgramThatRan) {
  FailureReport report;
  report.env_name = "e";
  report.bundle = "crash.json";
  const auto offers = [&](const std::string& command) {
    return report.message().find("; replay it with: " + command + " check e --replay crash.json") !=
           std::string::npos;
  };
  EXPECT_TRUE(offers("flotilla")) << report.message();
  set_program_name("./my_program");
  EXPECT_TRUE(offers("./my_program")) << report.message();
  set_program_name("flotilla");
}

TEST(Stop, TheFailureNamesAllThatIsKnown) {
  for (const Variant& variant : variants(4)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    batch.reset(9);
    batch.step({kGo, kGo, kGo, kGo});
    batch.step({kGo, kGo, kEnd, kGo});
    batch.step({kGo, kGo, kGo, kGo});
    EXPECT_EQ(failure_text([&] {
                batch.step({kGo, kGo, kThrow, kGo});
              }),
              "env 2 of 'test_script' failed in step: threw: script: told to throw (env=2, seed=9, "
              "episode=1, step=1, action=4, phase=step)");
    const auto failures = batch.vec().take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].env_name, "test_script");
    EXPECT_EQ(failures[0].env, 2);
    EXPECT_EQ(failures[0].seed, 9u);
    EXPECT_EQ(failures[0].episode, 1u);
    EXPECT_EQ(failures[0].step, 1u);
    EXPECT_EQ(failures[0].phase, "step");
    EXPECT_EQ(failures[0].action, "4");
    EXPECT_EQ(failures[0].cause, "threw: script: told to throw");
    EXPECT_FALSE(failures[0].repeated);
    EXPECT_EQ(failures[0].bundle, "");
    EXPECT_EQ(failures[0].message(),
              "env 2 of 'test_script' failed in step: threw: script: told to throw (seed 9, "
              "episode 1, step 1, action 4)");
    EXPECT_TRUE(batch.vec().take_failures().empty()) << "taken once";
    EXPECT_EQ(batch.vec().restarts(), 0);
    const StepView v = batch.view();
    EXPECT_EQ((std::vector<int>{v.valid[0], v.valid[1], v.valid[2], v.valid[3]}),
              (std::vector<int>{1, 1, 0, 1}));
    EXPECT_EQ(batch.obs(3)[0], 4) << "the others made their step";
  }
}

TEST(Stop, WithTwoGroupsTheOtherGroupStillCompletes) {
  for (const Variant& variant : variants(4)) {
    if (variant.options.groups != 2) continue;
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    batch.reset(1);
    batch.put({kThrow, kGo, kGo, kGo});
    batch.begin(0);
    batch.begin(1);
    EXPECT_NE(failure_text([&] { batch.vec().wait(0); }), "no failure");
    EXPECT_EQ(failure_text([&] { batch.vec().wait(1); }), "no failure");
    EXPECT_EQ(batch.obs(3)[0], 1);
  }
}

TEST(Stop, SomethingThatIsNotAnExceptionIsCaughtToo) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    batch.reset(1);
    const std::string text = failure_text([&] { batch.step({kGo, kThrowInt}); });
    EXPECT_TRUE(
        text.starts_with("env 1 of 'test_script' failed in step: threw: an exception that "
                         "is not a std::exception"))
        << text;
  }
}

TEST(Stop, TheFirstOfSeveralIsThrownAndAllAreReported) {
  for (const Variant& variant : variants(5)) {
    if (variant.options.groups != 1) continue;
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    batch.reset(1);
    const std::string text = failure_text([&] { batch.step({kGo, kThrow, kGo, kThrow, kThrow}); });
    EXPECT_TRUE(text.starts_with("env 1 of")) << text;
    const auto failures = batch.vec().take_failures();
    ASSERT_EQ(failures.size(), 3u);
    EXPECT_EQ(failures[1].env, 3);
    EXPECT_EQ(failures[2].env, 4);
  }
}

TEST(Stop, AFailingResetNamesTheReset) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"reset=first"}, variant.options);
    EXPECT_EQ(
        failure_text([&] { batch.reset(5); }),
        "env 0 of 'test_script' failed in reset: threw: script: told to fail in reset (env=0, "
        "seed=5, episode=0, step=0, action=-, phase=reset)");
    EXPECT_EQ(batch.vec().take_failures().size(), 2u);

    Batch later("test_script", {"reset=auto"}, variant.options);
    later.reset(5);
    later.step({kGo, kGo});
    EXPECT_EQ(
        failure_text([&] {
          later.step({kGo, kEnd});
        }),
        "env 1 of 'test_script' failed in reset: threw: script: told to fail in reset (env=1, "
        "seed=5, episode=1, step=0, action=-, phase=reset)");
  }
}

TEST(Stop, AnObserveThatThrowsBelongsToTheStepThatWasMade) {
  Batch batch("test_script", {}, serial(1));
  batch.reset(5);
  batch.step({kGo});
  EXPECT_EQ(
      failure_text([&] { batch.step({kBlind}); }),
      "env 0 of 'test_script' failed in step: threw: script: told to be blind (env=0, seed=5, "
      "episode=0, step=1, action=6, phase=step)");
}

TEST(Stop, TheStepOfALongMessageIsStillOneLine) {
  Batch batch("test_script", {}, serial(1));
  batch.reset(5);
  const std::string text = failure_text([&] { batch.step({kThrowBytes}); });
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

// One run of Script, its rows by step and env. Env 2 throws in steps 3 and 6 where `disturbed`.
std::vector<std::vector<std::string>> played(const VecOptions& options, int envs, bool disturbed) {
  Batch batch("test_script", {"time_limit=4"}, options);
  batch.reset(11);
  std::vector<std::vector<std::string>> all = {batch.rows()};
  for (int t = 0; t < 12; ++t) {
    std::vector<int32_t> acts(static_cast<size_t>(envs), kGo);
    acts[static_cast<size_t>((t * 5) % envs)] = kEnd;
    acts[2] = disturbed && (t == 3 || t == 6) ? kThrow : kGo;
    batch.step(acts);
    all.push_back(batch.rows());
  }
  EXPECT_EQ(batch.vec().restarts(), disturbed ? 2 : 0);
  return all;
}

TEST(Restart, TheOthersNeverNotice) {
  for (const int envs : {5, 150}) {
    const auto undisturbed = played(serial(envs), envs, false);
    const auto reference = played(with(serial(envs), OnFailure::kRestart), envs, true);
    for (size_t t = 0; t < undisturbed.size(); ++t) {
      for (size_t i = 0; i < undisturbed[t].size(); ++i) {
        if (i == 2) continue;
        ASSERT_EQ(reference[t][i], undisturbed[t][i]) << "env " << i << ", step " << t;
      }
      EXPECT_EQ(reference[t][2] == undisturbed[t][2], t < 4);
    }
    for (const Variant& variant : variants(envs)) {
      SCOPED_TRACE(variant.name);
      EXPECT_EQ(played(with(variant.options, OnFailure::kRestart), envs, true), reference);
    }
  }
}

TEST(Restart, TheRowIsInvalidAndShowsTheNewEpisode) {
  for (const Variant& variant : variants(3)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, with(variant.options, OnFailure::kRestart));
    batch.reset(4);
    batch.step({kGo, kGo, kGo});
    batch.step({kGo, kThrow, kGo});
    const StepView v = batch.view();
    EXPECT_EQ(v.valid[1], 0);
    EXPECT_EQ(v.reward[1], 0);
    EXPECT_EQ(v.terminated[1] + v.truncated[1], 0);
    EXPECT_EQ(batch.obs(1), fresh_obs(4, 1, 1));
    EXPECT_EQ(v.valid[0] + v.valid[2], 2);
    const auto failures = batch.vec().take_failures();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].env, 1);
    EXPECT_EQ(failures[0].step, 1u);

    batch.step({kGo, kGo, kGo});
    EXPECT_EQ(v.valid[1], 1);
    EXPECT_EQ(v.reward[1], 1);
    EXPECT_EQ(batch.obs(1)[0], 1);
    batch.step({kGo, kEnd, kGo});
    EXPECT_EQ(v.episode_length[1], 2) << "the failed episode does not count";
    EXPECT_EQ(v.episode_return[1], 11);
    batch.step({kGo, kThrow, kGo});
    EXPECT_EQ(batch.obs(1), fresh_obs(4, 1, 2)) << "every failure leaps to new draws";
    EXPECT_EQ(batch.vec().take_failures().at(0).episode, 2u);
    EXPECT_EQ(batch.vec().restarts(), 2);
  }
}

TEST(Restart, ResetStartsAnewWhateverFailedBefore) {
  Batch batch("test_script", {}, with(serial(2), OnFailure::kRestart));
  for (int round = 0; round < 3; ++round) {
    batch.reset(4);
    EXPECT_EQ(batch.obs(1), fresh_obs(4, 1, 0));
    batch.step({kGo, kThrow});
    EXPECT_EQ(batch.obs(1), fresh_obs(4, 1, 1))
        << "rows depend on seed, config and actions alone; round " << round;
  }
}

TEST(Restart, AFailingResetIsTriedAgain) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch first("test_script", {"reset=first"}, with(variant.options, OnFailure::kRestart));
    first.reset(6);
    EXPECT_EQ(first.vec().restarts(), 2);
    EXPECT_EQ(first.obs(1), fresh_obs(6, 1, 1));
    first.step({kGo, kGo});
    EXPECT_EQ(first.view().valid[0] + first.view().valid[1], 2);
    EXPECT_EQ(first.obs(1)[0], 1);

    Batch later("test_script", {"reset=auto"}, with(variant.options, OnFailure::kRestart));
    later.reset(6);
    later.step({kGo, kEnd});
    EXPECT_EQ(later.view().valid[1], 0);
    EXPECT_EQ(later.obs(1), fresh_obs(6, 1, 1));
    EXPECT_EQ(later.vec().take_failures().at(0).phase, "reset");
    later.step({kGo, kGo});
    EXPECT_EQ(later.view().valid[1], 1);
  }
}

TEST(Restart, AnEnvThatCannotBeResetEndsTheRun) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"reset=always"}, with(variant.options, OnFailure::kRestart));
    const std::string text = failure_text([&] { batch.reset(6); });
    EXPECT_TRUE(
        text.starts_with("env 0 of 'test_script' failed in reset: threw: script: told to "
                         "fail in reset; it could not be restarted"))
        << text;
    EXPECT_EQ(batch.view().valid[0], 0);
    EXPECT_EQ(batch.obs(0), std::vector<float>(3));

    Batch later("test_script", {"reset=odd_seed"}, with(variant.options, OnFailure::kRestart));
    later.reset(7);
    EXPECT_EQ(failure_text([&] { later.step({kGo, kGo}); }), "no failure");
    EXPECT_NE(failure_text([&] {
                later.step({kGo, kEnd});
              }).find("; it could not be restarted"),
              std::string::npos);
    // A new reset brings it back, and what happened before no longer counts.
    later.reset(8);
    EXPECT_EQ(later.view().valid[1], 1);
    EXPECT_EQ(failure_text([&] { later.step({kGo, kThrow}); }), "no failure");
  }
}

TEST(Restart, TheBudgetEndsTheRun) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, with(variant.options, OnFailure::kRestart, 2));
    batch.reset(1);
    EXPECT_EQ(failure_text([&] { batch.step({kThrow, kGo}); }), "no failure");
    EXPECT_EQ(failure_text([&] { batch.step({kThrow, kGo}); }), "no failure");
    EXPECT_EQ(failure_text([&] { batch.step({kGo, kGo}); }), "no failure");
    const std::string text = failure_text([&] { batch.step({kGo, kThrow}); });
    EXPECT_TRUE(
        text.starts_with("env 1 of 'test_script' failed in step: threw: script: told to "
                         "throw; the restart budget of 2 is used up"))
        << text;
    EXPECT_EQ(batch.vec().restarts(), 3);
  }
}

TEST(Drop, TheEnvStaysOutUntilTheNextReset) {
  for (const Variant& variant : variants(3)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, with(variant.options, OnFailure::kDrop));
    Batch fresh("test_script", {}, serial(3));
    batch.reset(1);
    batch.step({kGo, kThrow, kGo});
    for (int t = 0; t < 4; ++t) {
      const StepView v = batch.view();
      EXPECT_EQ(v.valid[1], 0);
      EXPECT_EQ(v.reward[1], 0);
      EXPECT_EQ(v.terminated[1] + v.truncated[1], 0);
      EXPECT_EQ(batch.obs(1), std::vector<float>(3));
      EXPECT_EQ(v.valid[0] + v.valid[2], 2);
      batch.step({kGo, t == 2 ? kThrow : kGo, kGo});  // nobody is there to throw
    }
    EXPECT_EQ(batch.vec().take_failures().size(), 1u);
    EXPECT_EQ(batch.vec().restarts(), 0);

    batch.reset(2);
    fresh.reset(2);
    EXPECT_EQ(batch.rows(), fresh.rows());
    for (int t = 0; t < 6; ++t) {
      batch.step({kGo, kGo, kGo});
      fresh.step({kGo, kGo, kGo});
      EXPECT_EQ(batch.rows(), fresh.rows());
    }
  }
}

TEST(Drop, TheMaskOfADroppedEnvLetsAPolicySample) {
  Batch batch("faulty", {"fault=throw", "fault_step=2"}, with(serial(3), OnFailure::kDrop));
  batch.reset(1);
  batch.step({0, 0, 0});
  failure_text([&] { batch.step({0, 0, 0}); });
  for (int k = 0; k < 9; ++k) EXPECT_EQ(batch.view().mask[k], 1);
}

TEST(Drop, TheLastOneEndsTheRun) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, with(variant.options, OnFailure::kDrop));
    batch.reset(1);
    EXPECT_EQ(failure_text([&] { batch.step({kGo, kThrow}); }), "no failure");
    const std::string text = failure_text([&] { batch.step({kThrow, kGo}); });
    EXPECT_TRUE(
        text.starts_with("env 0 of 'test_script' failed in step: threw: script: told to "
                         "throw; no environment is left"))
        << text;
    batch.reset(1);
    EXPECT_EQ(failure_text([&] { batch.step({kGo, kGo}); }), "no failure");
    EXPECT_EQ(batch.view().valid[0] + batch.view().valid[1], 2);
  }
}

TEST(Drop, OneFailureDoesNotChangeWhatTheNextIsCalled) {
  // Env 0 fails in the reset that follows its step, env 1 in its step, in the same call.
  for (const OnFailure policy : {OnFailure::kDrop, OnFailure::kStop}) {
    Batch batch("test_script", {"reset=auto"}, with(serial(3), policy));
    batch.reset(1);
    failure_text([&] { batch.step({kEnd, kThrow, kGo}); });
    const auto failures = batch.vec().take_failures();
    ASSERT_EQ(failures.size(), 2u);
    EXPECT_EQ(failures[0].phase, "reset");
    EXPECT_EQ(failures[0].action, "-");
    EXPECT_EQ(failures[1].phase, "step");
    EXPECT_EQ(failures[1].action, "4");
  }
}

TEST(Watchdog, NamesTheEnvThatHangs) {
  for (const Variant& variant : variants(3)) {
    if (variant.options.backend == Backend::kProcesses) continue;
    SCOPED_TRACE(variant.name);
    VecOptions options = variant.options;
    options.step_timeout_s = 0.2;
    Batch batch("test_script", {"hang_s=0.8"}, options);
    batch.reset(1);
    std::string text;
    int steps = 0;
    for (; text.empty() && steps < 4; ++steps) {  // while the test itself is stopped, nobody looks
      testing::internal::CaptureStderr();
      batch.step({kGo, kHang, kGo});
      text = testing::internal::GetCapturedStderr();
    }
    const size_t at = text.find("env 1 of 'test_script' hangs: in the same step for ");
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find("hangs", at + 40), std::string::npos) << "said once:\n" << text;
    EXPECT_EQ(batch.view().valid[1], 1);
    EXPECT_EQ(batch.obs(1)[0], static_cast<float>(steps)) << "it goes on";
  }
}

TEST(Watchdog, NamesAResetThatHangs) {
  VecOptions options = serial(1);
  options.step_timeout_s = 0.1;
  Batch batch("test_script", {"reset=slow", "hang_s=0.5"}, options);
  std::string text;
  for (int i = 0; text.empty() && i < 4; ++i) {
    testing::internal::CaptureStderr();
    batch.reset(1);
    text = testing::internal::GetCapturedStderr();
  }
  EXPECT_NE(text.find("env 0 of 'test_script' hangs: in the same reset for "), std::string::npos)
      << text;
}

TEST(Watchdog, IsSilentWhileThereIsProgress) {
  VecOptions options = serial(8);
  options.step_timeout_s = 1;
  Batch batch("test_script", {"hang_s=0.2"}, options);
  testing::internal::CaptureStderr();
  batch.reset(1);
  batch.step(std::vector<int32_t>(8, kHang));  // 1.6 s in all, 0.2 s each
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(WaitStatus, IsDecoded) {
  EXPECT_EQ(describe_wait_status(W_EXITCODE(0, SIGSEGV)), "killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(describe_wait_status(W_EXITCODE(0, SIGKILL)), "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(describe_wait_status(W_EXITCODE(7, 0)), "exited with status 7");
  EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
}

TEST(FailureReport, AWorkerThatWasInNoEnv) {
  FailureReport report;
  report.env_name = "cartpole";
  report.seed = 3;
  report.action = "-";
  report.cause = "worker killed by signal 9 (SIGKILL) from outside";
  EXPECT_TRUE(report.message().starts_with(
      "a worker of 'cartpole' failed: worker killed by signal 9 (SIGKILL) from outside"))
      << report.message();
}

}  // namespace
}  // namespace flotilla::test
