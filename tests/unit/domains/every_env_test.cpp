// What must hold for every environment that ships: the conformance kit, the same trajectory in
// every back end, no allocation per step, damage that stays with one env, and a first ratio of one.
#include <gtest/gtest.h>

#include <algorithm>

#include "flotilla/core/alloc_count.h"
#include "flotilla/env/conformance.h"
#include "flotilla/env/random_run.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"
#include "support/build.h"
#include "support/saved_slots.h"

namespace flotilla::test {
namespace {

const std::vector<std::string> kChecks = {
    "spec", "bounds",        "written whole", "statistics", "deterministic", "time limit",
    "mask", "no allocation", "threads",       "processes",  "save and load"};

// Settings that make an env quick to step: every step of dial-a-ride routes all its requests anew;
// every process makes its own market.
std::vector<std::string> quick(const EnvType& type) {
  if (type.name == "dvrp") return {"customers=6", "oracle.refine=0"};
  if (type.name == "funding") return {"market.days=12", "market.symbols=20"};
  return {};
}

// Those that step together are slow, under a sanitizer very slow; pictures take long to hash.
int steps_for(const EnvType& type, int usual) {
  const bool shows_pictures = type.spec(Config(type.schema)).obs.row_bytes() > 4096;
  if (!type.batched) return shows_pictures ? usual / (kSanitized ? 20 : 5) : usual;
  return kSanitized ? 15 : 70;
}

TEST(EveryEnv, PassesEveryCheckOfTheConformanceKit) {
  const Registry& all = shipped();
  ASSERT_GE(all.types().size(), 7u);
  for (const EnvType& type : all.types()) {
    std::vector<std::string> names;
    ConformanceOptions options;
    options.steps = steps_for(type, kSanitized ? options.steps / 3 : options.steps);
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

TEST(EveryEnv, HasTheSameTrajectoryInEveryBackEnd) {
  for (const EnvType& type : shipped().types()) {
    std::string expected;
    const int steps = steps_for(type, 250);
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

TEST(EveryEnv, AllocatesNothingPerStep) {
  if (!can_count_allocations()) GTEST_SKIP();
  for (const EnvType& type : shipped().types()) {
    const int steps = steps_for(type, 300);
    for (const Variant& variant : variants_for(type, 40)) {
      // Of workers the caller's side is counted.
      SCOPED_TRACE(type.name + ", " + variant.name);
      RandomRun run(type, config_of(type, quick(type)), variant.options, 1);
      run.run(5);
      const uint64_t before = allocation_count();
      run.run(static_cast<uint64_t>(steps));
      for (int t = 0; t < 50; ++t) run.step();
      EXPECT_EQ(allocation_count() - before, 0u);
    }
  }
}

// The state of one env is damaged; whatever it does then, its neighbours must not notice.
TEST(EveryEnv, ADamagedStateHarmsNobodyElse) {
  for (const EnvType& type : shipped().types()) {
    SCOPED_TRACE(type.name);
    const auto others = [](const Batch& batch) { return batch.row(0) + batch.row(2); };
    Batch batch(type.name, quick(type), serial(3));
    batch.reset(21);
    for (uint64_t t = 0; t < 5; ++t) batch.step_randomly(21, t);
    const std::vector<std::byte> good = batch.saved();
    std::vector<std::string> expected;
    for (uint64_t t = 5; t < 15; ++t) {
      batch.step_randomly(21, t);
      expected.push_back(others(batch));
    }
    const std::vector<size_t> offsets = slot_offsets(good, 3);
    const size_t state = offsets[1] + sizeof(SlotHeader);
    const size_t state_bytes =
        type.make_loop(Config(type.schema), 0)->slot_bytes() - sizeof(SlotHeader);
    Rng rng(9, stream_of(Purpose::kTest, 2));
    for (int round = 0; round < (kSanitized ? 40 : 300); ++round) {
      std::vector<std::byte> bytes = good;
      for (uint32_t k = 0; k <= rng.below(3); ++k) {
        const uint32_t at = rng.below(static_cast<uint32_t>(state_bytes));
        bytes[state + at] = std::byte(rng.below(256));
      }
      batch.load(good);
      try {
        batch.load(bytes);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
        continue;
      }
      for (uint64_t t = 5; t < 15; ++t) {
        try {
          batch.step_randomly(21, t);
        } catch (const EnvFailure&) {  // it may well throw
        }
        ASSERT_EQ(others(batch), expected[t - 5]) << "round " << round;
      }
    }
  }
}

// One fails on purpose; pictures are too large for the kernels that every build has.
bool is_trainable(const EnvType& type) {
  return type.name != "faulty" && type.spec(Config(type.schema)).obs.elements() <= 4096;
}

RunConfig small_run(const EnvType& type, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"num_envs=12",
                                  "horizon=16",
                                  "steps=960",
                                  "net.hidden=16,16",
                                  "ppo.minibatches=2",
                                  "ppo.epochs=2",
                                  "net.normalise_obs=true",
                                  "eval.episodes=0"};
  for (const std::string& setting : quick(type)) all.push_back("env." + setting);
  all.insert(all.end(), more.begin(), more.end());
  return RunConfig(type, load_run_config(shipped(), type.name, true, all));
}

TEST(EveryEnv, HasAFirstRatioOfOne) {
  for (const EnvType& type : shipped().types()) {
    if (!is_trainable(type)) continue;
    SCOPED_TRACE(type.name);
    const bool discrete = !type.spec(Config(type.schema)).action.is_box();
    Trainer trainer(small_run(type, {discrete ? "ppo.epsilon=0.1" : "ppo.epsilon=0"}));
    for (int i = 0; i < (kSanitized ? 2 : 5); ++i) {
      trainer.iterate();
      EXPECT_EQ(trainer.progress().update.first_ratio_error, 0) << "update " << i;
    }
    const std::vector<Metric>& metrics = trainer.progress().update.metrics;
    const auto kl = std::ranges::find(metrics, "losses/approx_kl", &Metric::first);
    ASSERT_NE(kl, metrics.end());
    EXPECT_NE(kl->second, 0) << "later minibatches differ";
  }
}

TEST(EveryEnv, TrainsToTheSameParametersInEveryBackEnd) {
  for (const EnvType& type : shipped().types()) {
    if (!is_trainable(type) || type.batched) continue;
    const auto trained = [&type](const std::vector<std::string>& layout) {
      Trainer trainer(small_run(type, layout));
      trainer.train(nullptr);
      return trainer.params_sha256();
    };
    const std::string expected = trained({"backend=serial", "threads=1"});
    EXPECT_EQ(trained({"backend=threads", "threads=3", "groups=2"}), expected) << type.name;
    EXPECT_EQ(trained({"backend=processes", "workers=2"}), expected) << type.name;
  }
}

}  // namespace
}  // namespace flotilla::test
