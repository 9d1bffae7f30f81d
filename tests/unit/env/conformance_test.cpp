// The conformance kit passes every shipped env and catches every broken one, and the back ends
// agree on the trajectory of each.
#include "flotilla/env/conformance.h"

#include <gtest/gtest.h>

#include <set>

#include "flotilla/core/alloc_count.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"

namespace flotilla::test {
namespace {

const std::vector<std::string> kChecks = {
    "spec", "bounds",        "written whole", "statistics", "deterministic", "time limit",
    "mask", "no allocation", "threads",       "processes",  "save and load"};

TEST(Conformance, EveryShippedEnvPassesEveryCheck) {
  const Registry& all = shipped();
  ASSERT_GE(all.types().size(), 7u);
  for (const EnvType& type : all.types()) {
    std::vector<std::string> names;
    ConformanceOptions options;
    if (type.batched) options.steps = 70;  // they are slow
    for (const CheckResult& result : check_env(type, config_of(type, quick(type)), options)) {
      EXPECT_TRUE(result.passed) << type.name << ", " << result.name << ": " << result.detail;
      EXPECT_FALSE(result.detail.empty());
      names.push_back(result.name);
    }
    for (const std::string& name : kChecks) {
      EXPECT_NE(std::ranges::find(names, name), names.end()) << "no check '" << name << "'";
    }
  }
}

class BrokenEnv : public testing::Test {
 protected:
  // Fails unless exactly the checks in `expected` failed, and gives the first one's detail.
  std::string caught(const std::string& defect, const std::set<std::string>& expected) {
    const EnvType& type = registry().find("test_broken");
    const Config config = config_of(type, {"defect=" + defect});
    std::set<std::string> failed;
    std::string detail;
    for (const CheckResult& result : check_env(type, config, {.seed = 1})) {
      if (result.passed) continue;
      if (failed.empty()) detail = result.detail;
      failed.insert(result.name);
    }
    EXPECT_EQ(failed, expected) << defect << ": " << detail;
    return detail;
  }

  // Fails unless `check` is among those that failed.
  void caught_at_least(const std::string& defect, const std::string& check) {
    const EnvType& type = registry().find("test_broken");
    for (const CheckResult& result :
         check_env(type, config_of(type, {"defect=" + defect}), {.seed = 1})) {
      if (result.name == check) {
        EXPECT_FALSE(result.passed) << defect << " was not caught by '" << check << "'";
      }
    }
  }
};

TEST_F(BrokenEnv, WithoutADefectItPasses) { caught("none", {}); }

TEST_F(BrokenEnv, ObservationsAndRewardsOutOfBounds) {
  EXPECT_EQ(caught("nan_obs", {"bounds"}),
            "env 0, step 19: obs[1] = nan is outside [-1000000, 1000000]");
  EXPECT_EQ(caught("obs_bounds", {"bounds"}),
            "env 0, step 19: obs[1] = 2000000 is outside [-1000000, 1000000]");
  EXPECT_EQ(caught("reward_bounds", {"bounds"}), "env 0, step 19: reward 2.5 is outside [0, 2]");
  EXPECT_EQ(caught("nan_metric", {"bounds"}), "env 0, step 59: metric count is not finite");
  caught_at_least("nan_reward", "bounds");
}

TEST_F(BrokenEnv, ObservationsThatAreNotWrittenWhole) {
  EXPECT_EQ(caught("part_of_obs", {"written whole"}),
            "env 0, step 0: a part of obs is not written");
}

TEST_F(BrokenEnv, Masks) {
  EXPECT_EQ(caught("no_choice", {"mask"}), "env 0, step 20: no legal choice");
  EXPECT_EQ(caught("bad_flag", {"mask"}), "env 0, step 0: no legal choice");
  caught_at_least("mask_lies", "mask");
}

TEST_F(BrokenEnv, Allocation) {
  if (!can_count_allocations()) GTEST_SKIP();
  EXPECT_EQ(caught("allocates", {"no allocation"}), "2100 allocations in 300 steps");
}

TEST_F(BrokenEnv, WhatDoesNotDependOnStateActionAndGeneratorAlone) {
  caught_at_least("global", "deterministic");
  caught_at_least("clock", "deterministic");
  caught_at_least("shared", "deterministic");
  EXPECT_EQ(caught("hidden", {"save and load"}), "a restored copy: obs of env 0 differs at step 0");
  EXPECT_EQ(caught("by_thread", {"threads", "save and load"}),
            "2 threads: obs of env 3 differs at step 0");
  EXPECT_EQ(caught("by_process", {"processes", "save and load"}),
            "1 workers: obs of env 0 differs at step 0");
}

TEST_F(BrokenEnv, ASpecThatContradictsItself) {
  EXPECT_EQ(caught("bad_spec", {"spec"}),
            "environment 'test_broken': reward bounds are out of order");
}

TEST(Conformance, OtherConfigsAndSizesPassToo) {
  const auto passes = [](const char* env, const std::vector<std::string>& overrides,
                         const ConformanceOptions& options) {
    const EnvType& type = registry().find(env);
    for (const CheckResult& result : check_env(type, config_of(type, overrides), options)) {
      EXPECT_TRUE(result.passed) << env << ", " << result.name << ": " << result.detail;
    }
  };
  passes("catch", {"rows=2", "cols=1"}, {.seed = 3, .steps = 60, .num_envs = 3});
  passes("cartpole", {"time_limit=0"}, {.seed = 4, .steps = 100, .num_envs = 70});
}

TEST(Trajectory, HasTheSameHashInEveryBackEnd) {
  for (const EnvType& type : shipped().types()) {
    std::string expected;
    const int steps = type.batched ? 70 : 250;
    for (const Variant& variant : variants_for(type, 37)) {
      SCOPED_TRACE(type.name + ", " + variant.name);
      RandomRun run(type, config_of(type, quick(type)), variant.options, 12);
      TrajectoryHash hash(run.vec().spec(), 37);
      hash.add(run.view());
      for (int t = 0; t < steps; ++t) {
        run.step();
        hash.add(run.view());
      }
      const std::string found = hash.hex();
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(Trajectory, AnotherSeedHasAnotherHash) {
  std::set<std::string> seen;
  const EnvType& type = registry().find("cartpole");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    RandomRun run(type, Config(type.schema), serial(4), seed);
    TrajectoryHash hash(run.vec().spec(), 4);
    hash.add(run.view());
    EXPECT_TRUE(seen.insert(hash.hex()).second);
  }
}

}  // namespace
}  // namespace flotilla::test
