// The number of envs that is chosen, by made-up rates and memory; and once by real ones.
#include "flotilla/train/choose_envs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/error_text.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

ConfigWith cartpole(const Overrides& settings) {
  return [settings](std::optional<int> num_envs) {
    Overrides all = settings;
    if (num_envs) all.push_back(fmt::format("num_envs={}", *num_envs));
    return load_run_config(registry(), "cartpole", true, all);
  };
}

// Rates that grow by 1.3 with each doubling up to a number, and not beyond.
class MadeUpRates : public EnvsChooser {
 public:
  MadeUpRates(const Overrides& settings, int up_to, uint64_t bytes_each = 0)
      : EnvsChooser(registry(), built_in_algorithms(), cartpole(settings)),
        up_to_(up_to),
        bytes_each_(bytes_each) {}

 private:
  EnvsTried measure(const RunConfig& run, double) override {
    const int n = run.vec.num_envs;
    return {.num_envs = n,
            .steps_per_s = 1000 * std::pow(1.3, std::log2(std::min(n, up_to_))),
            .grown = 5000 + bytes_each_ * static_cast<uint64_t>(n),
            .cost_s = 1e-6};
  }

  const int up_to_;
  const uint64_t bytes_each_;
};

constexpr EnvsRoom kPlenty{.memory = uint64_t{1} << 40U, .seconds = 60};

// As Trainer and choose() count them.
uint64_t bytes_of(const Overrides& settings) {
  return 2 * Trainer(run_config("cartpole", settings)).rollout_bytes();
}

TEST(ChosenEnvs, AreMoreAsLongAsThatIsMuchFaster) {
  const EnvsChoice choice = MadeUpRates({"num_envs=8"}, 64).choose(kPlenty);
  EXPECT_EQ(choice.num_envs, 64);
  EXPECT_EQ(choice.tried.front().num_envs, 8);
  EXPECT_EQ(choice.tried.back().num_envs, 128);
  EXPECT_EQ(choice.end, "more are hardly faster");
  EXPECT_TRUE(choice.text().starts_with("num_envs: 64 of 8 to 128 (tried in "));
  EXPECT_EQ(MadeUpRates({"num_envs=128"}, 64).choose(kPlenty).num_envs, 128) << "of the recipe";
  EXPECT_EQ(MadeUpRates({"num_envs=12", "replicas=4"}, 30).choose(kPlenty).num_envs, 24);
}

TEST(ChosenEnvs, FitInMemory) {
  const Overrides settings = {"num_envs=64", "n_steps=128", "threads=2"};
  const auto with = [&](uint64_t memory, uint64_t each = 0) {
    return MadeUpRates(settings, 1 << 16, each).choose({.memory = memory, .seconds = 60});
  };
  const uint64_t of_16 = bytes_of({"num_envs=16", "n_steps=128", "threads=2"});
  const EnvsChoice few = with(of_16 + of_16 / 8);
  EXPECT_EQ(few.num_envs, 16) << "half, and half again";
  EXPECT_TRUE(few.end.starts_with("more would need ")) << few.end;
  // What envs take besides is known by those that were tried: a megabyte each.
  EXPECT_EQ(with(uint64_t{300} << 20U, uint64_t{1} << 20U).num_envs, 256);
  EXPECT_GT(with(uint64_t{300} << 20U).num_envs, 256);
  EXPECT_TRUE(error_text(ErrorCode::kUsage, [&] { with(100); })
                  .ends_with("of memory, of which 100 B may be used: lower n_steps, or give a "
                             "number instead of auto"));
}

TEST(ChosenEnvs, LeaveUpdates) {
  const Overrides settings = {"num_envs=64", "n_steps=128", "total_timesteps=20480"};
  const EnvsChoice choice = MadeUpRates(settings, 1 << 16).choose(kPlenty);
  EXPECT_EQ(choice.num_envs, 16) << "ten updates";
  const Overrides longer = {"num_envs=64", "n_steps=128", "total_timesteps=327680"};
  EXPECT_EQ(MadeUpRates(longer, 1 << 16).choose(kPlenty).num_envs, 256);
}

TEST(ChosenEnvs, KeepToTheSettings) {
  // A minibatch of 1024 rows needs eight envs.
  const Overrides settings = {"num_envs=64", "n_steps=128", "ppo.batch_size=1024",
                              "total_timesteps=1280"};
  EXPECT_EQ(MadeUpRates(settings, 64).choose(kPlenty).num_envs, 8);
  EXPECT_NE(error_text(
                ErrorCode::kUsage,
                [] {
                  MadeUpRates({"num_envs=4", "workers=8", "backend=processes"}, 64).choose(kPlenty);
                }),
            "");
}

TEST(ChosenEnvs, ByTheRatesOfThisMachine) {
  for (const char* backend : {"threads", "processes"}) {
    EnvsChooser chooser(registry(), built_in_algorithms(),
                        cartpole({"num_envs=8", std::string("backend=") + backend, "workers=2"}));
    const EnvsChoice choice = chooser.choose({.seconds = 0.2});
    EXPECT_EQ(choice.num_envs % 8, 0);
    EXPECT_GE(choice.num_envs, 8);
    for (const EnvsTried& each : choice.tried) EXPECT_GT(each.steps_per_s, 0);
  }
}

TEST(ChosenEnvs, AreAskedForByAnyNameOfTheKey) {
  Overrides settings = {"seed=1", "n_envs=auto", "num_envs=auto", "policy=auto"};
  EXPECT_TRUE(take_auto_envs(settings));
  EXPECT_EQ(settings, (Overrides{"seed=1", "policy=auto"}));
  EXPECT_FALSE(take_auto_envs(settings));
}

}  // namespace
}  // namespace flotilla::test
