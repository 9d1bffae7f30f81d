// The conformance kit catches every broken env (unit/domains/every_env_test.cpp: it passes every
// shipped one), and a trajectory has a hash.
#include "flotilla/env/conformance.h"

#include <gtest/gtest.h>

#include <set>

#include "flotilla/core/alloc_count.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

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

TEST(Conformance, SettingsThatAnEnvRefusesAreNoFaultOfItsOwn) {
  EnvType picky = registry().find("test_broken");
  const auto refusing_with = [&picky](auto error) {
    picky.make_loop = [error](const Config&, int) -> std::unique_ptr<EnvLoop> { throw error; };
    return check_env(picky, Config(picky.schema), {.seed = 1});
  };
  EXPECT_EQ(error_text(ErrorCode::kUsage,
                       [&] { refusing_with(Error(ErrorCode::kUsage, "customers: too many")); }),
            "customers: too many");
  for (const auto& results : {refusing_with(Error(ErrorCode::kData, "a file is damaged")),
                              refusing_with(SpecError("no action"))}) {
    ASSERT_EQ(results.size(), 1u);
    EXPECT_FALSE(results[0].passed);
  }
}

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

TEST(Conformance, AdviceIsCheckedToo) {
  const EnvType& type = registry().find("test_advised");
  const auto said = [&](const std::string& defect, const std::string& check) -> std::string {
    for (const CheckResult& result :
         check_env(type, config_of(type, {"defect=" + defect}), {.seed = 1})) {
      if (result.name == check) return result.detail;
    }
    return "no such check";
  };
  for (const CheckResult& result : check_env(type, Config(type.schema), {.seed = 1})) {
    EXPECT_TRUE(result.passed) << result.name << ": " << result.detail;
  }
  EXPECT_EQ(said("clash", "mask"), "env 0, step 0: no legal choice");
  EXPECT_EQ(said("bad_advice", "mask"), "env 0, step 0: no legal choice");
  EXPECT_EQ(said("part_of_advice", "written whole"),
            "env 0, step 0: a part of advice is not written");
}

// Steps together with the others, in a stage that may allocate.
class Together {
 public:
  struct State {
    int32_t count;
  };

  static Schema schema() {
    Schema schema;
    schema.boolean("allocates", false, "in the stage");
    return schema;
  }
  explicit Together(const Config& config) : allocates_(config.get_boolean("allocates")) {
    spec_.obs = ObsSpace::float32({1}, 0, 10);
    spec_.action = ActionSpace::discrete(2);
    spec_.time_limit = 10;
  }

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng&) const { s.count = 0; }
  void prepare(State&, ActionRow, Rng&) const {}
  Outcome step(State&, ActionRow, Rng&) const { return {}; }
  void observe(const State& s, ObsRow row) const { row.f32()[0] = static_cast<float>(s.count); }

  class Sum final : public Stage<State> {
   public:
    explicit Sum(bool allocates) : allocates_(allocates) {}
    void run(std::span<State* const> states) override {
      if (allocates_) std::vector<State*>(states.begin(), states.end()).swap(kept_);
      for (State* s : states) ++s->count;
    }

   private:
    const bool allocates_;
    std::vector<State*> kept_;
  };
  std::unique_ptr<Stage<State>> make_stage(ThreadPool&) const {
    return std::make_unique<Sum>(allocates_);
  }

 private:
  EnvSpec spec_;
  bool allocates_;
};

TEST(Conformance, StagesAllocateNothingEither) {
  if (!can_count_allocations()) GTEST_SKIP();
  const EnvType type = env_type<Together>("together", "");
  const auto said = [&](const char* setting) -> std::string {
    for (const CheckResult& result : check_env(type, config_of(type, {setting}), {.seed = 1})) {
      if (result.name == "no allocation") return result.detail;
    }
    return "no such check";
  };
  EXPECT_EQ(said("allocates=false"), "none in 300 steps, serial and threads");
  EXPECT_EQ(said("allocates=true"), "300 allocations in 300 steps");
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
