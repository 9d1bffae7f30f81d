// Envs have numbers: batches that share a row of envs give the rows of one batch with all of them.
#include <gtest/gtest.h>

#include <filesystem>

#include "flotilla/env/replay.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

constexpr int kFirst = 3, kSecond = 4;  // envs of the two batches

VecOptions part_of_seven(VecOptions options, int first_env, int num_envs) {
  options.first_env = first_env;
  options.num_envs = num_envs;
  return options;
}

TEST(FirstEnv, TwoBatchesGiveTheRowsOfOne) {
  for (const char* env : {"cartpole", "pendulum", "faulty"}) {  // choices, a box, a mask
    for (const Variant& variant : variants(kFirst + kSecond)) {
      for (const int replicas : {1, 2}) {
        SCOPED_TRACE(std::string(env) + ", " + variant.name);
        VecOptions options = variant.options;
        options.replicas = replicas;
        Batch whole(env, {"time_limit=9"}, options);
        Batch first(env, {"time_limit=9"}, part_of_seven(options, 0, kFirst));
        Batch second(env, {"time_limit=9"}, part_of_seven(options, kFirst, kSecond));
        EXPECT_EQ(second.vec().first_env(), kFirst);
        for (Batch* batch : {&whole, &first, &second}) batch->reset(3);
        for (uint64_t t = 0; t < 30; ++t) {
          for (Batch* batch : {&whole, &first, &second}) batch->step_randomly(5, t);
          for (int i = 0; i < kFirst; ++i) ASSERT_EQ(first.row(i), whole.row(i)) << "step " << t;
          for (int i = 0; i < kSecond; ++i) {
            ASSERT_EQ(second.row(i), whole.row(kFirst + i)) << "step " << t;
          }
        }
      }
    }
  }
}

// The bundle has to name the env's number, not its row: the draws of another env do not fail at
// this step.
TEST(FirstEnv, TheFailureOfASecondBatchIsReplayed) {
  const auto dir =
      std::filesystem::temp_directory_path() / ("flotilla-first-env-" + std::to_string(getpid()));
  for (const Variant& variant : variants(kSecond)) {
    SCOPED_TRACE(variant.name);
    VecOptions options = part_of_seven(variant.options, kFirst, kSecond);
    options.crash_dir = dir.string();
    Batch batch("faulty", {"fault=throw", "fault_probability=0.02"}, options);
    batch.reset(11);
    FailureReport report;
    for (uint64_t t = 0; t < 1000 && report.env < 0; ++t) {
      try {
        batch.step_randomly(5, t);
      } catch (const EnvFailure& failure) {
        report = failure.report();
      }
    }
    ASSERT_GE(report.env, kFirst);
    const CrashBundle bundle = CrashBundle::read(report.bundle);
    EXPECT_EQ(bundle.env, report.env);
    EXPECT_NE(report.bundle.find("-env" + std::to_string(report.env) + "-"), std::string::npos);
    const ReplayResult result = replay(registry().find("faulty"), bundle);
    EXPECT_TRUE(result.failed);
    EXPECT_EQ(result.steps, report.step);
    EXPECT_EQ("threw: " + result.cause, report.cause);
  }
  std::filesystem::remove_all(dir);
}

TEST(FirstEnv, APartLoadsWhereItWasSaved) {
  for (const Variant& variant : variants(kSecond)) {
    SCOPED_TRACE(variant.name);
    const VecOptions part = part_of_seven(variant.options, kFirst, kSecond);
    Batch saved("catch", {}, part);
    saved.reset(3);
    for (uint64_t t = 0; t < 12; ++t) saved.step_randomly(5, t);
    const auto bytes = saved.saved();
    Batch same("catch", {}, part_of_seven(serial(kSecond), kFirst, kSecond));
    same.load(bytes);
    for (uint64_t t = 12; t < 24; ++t) {
      saved.step_randomly(5, t);
      same.step_randomly(5, t);
      ASSERT_EQ(same.rows(), saved.rows()) << "step " << t;
    }
    Batch other("catch", {}, serial(kSecond));
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { other.load(bytes); }),
              "saved environments differ from these: the random numbers of env 0 are those of "
              "another");
  }
}

TEST(FirstEnv, IsNamedInRefusals) {
  Batch batch("cartpole", {}, part_of_seven(serial(2), 40, 2));
  batch.reset(3);
  EXPECT_EQ(error_text(ErrorCode::kUsage,
                       [&] {
                         batch.step({0, 7});
                       }),
            "env 41 of 'cartpole': action 7 is outside Discrete(2)");
}

TEST(FirstEnv, HasARange) {
  for (const int wrong : {-1, kMaxEnvNumber - 1}) {
    EXPECT_EQ(error_text(ErrorCode::kUsage,
                         [&] { Batch("cartpole", {}, part_of_seven(serial(2), wrong, 2)); }),
              "first_env: expected an integer from 0 to 999999998, got " + std::to_string(wrong));
  }
}

}  // namespace
}  // namespace flotilla::test
