// Training with a torso: the same parameters whatever carries it out, and after a resume.
#include <gtest/gtest.h>

#include <filesystem>

#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "support/batch.h"
#include "support/build.h"

namespace flotilla::test {
namespace {

// Two iterations and, of the whole, two more.
constexpr int kEnvs = kSanitized ? 3 : 9, kHorizon = kSanitized ? 8 : 24;
std::string steps_of(int iterations) { return std::to_string(iterations * kEnvs * kHorizon); }

RunConfig stripes_run(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"num_envs=" + std::to_string(kEnvs), "horizon=" + std::to_string(kHorizon),
               "net.hidden=16", "ppo.minibatches=2", "policy=fused", "ppo.epochs=2",
               "steps=" + steps_of(4), "eval.every=0", "eval.episodes=2", "env.side=14"});
  const Config config = load_run_config(registry(), "test_stripes", true, more);
  return {env_of(registry(), config), config};
}

std::string trained_stripes(const std::vector<std::string>& more) {
  Trainer trainer(stripes_run(more));
  trainer.train(nullptr);
  return trainer.params_sha256();
}

TEST(Images, ParametersDoNotDependOnThreadsOrBackEnds) {
  for (const char* torso : {"net.torso=nature", "net.torso=impala"}) {
    const std::string side = torso == std::string("net.torso=nature") ? "env.side=36"  //
                                                                      : "env.side=14";
    const std::string expected = trained_stripes({torso, side, "backend=serial"});
    for (const char* threads : {"threads=1", "threads=2", "threads=3"}) {
      EXPECT_EQ(trained_stripes({torso, side, "backend=threads", threads}), expected)
          << torso << threads;
    }
    EXPECT_EQ(trained_stripes({torso, side, "backend=processes", "workers=2"}), expected) << torso;
  }
}

const std::vector<std::string> kAttention = {"env.side=8", "net.torso=attention",
                                             "net.groups=6x8:32,1x16:16", "net.fusion=64",
                                             "normalize_obs=true"};

TEST(Groups, ParametersDoNotDependOnThreadsOrBackEnds) {
  const auto in = [](const std::vector<std::string>& layout) {
    std::vector<std::string> all = kAttention;
    all.insert(all.end(), layout.begin(), layout.end());
    return trained_stripes(all);
  };
  const std::string expected = in({"backend=serial"});
  EXPECT_EQ(in({"backend=threads", "threads=2"}), expected);
  EXPECT_EQ(in({"backend=threads", "threads=3"}), expected);
  EXPECT_EQ(in({"backend=processes", "workers=2"}), expected);
}

void expect_going_on(const std::vector<std::string>& settings) {
  const std::filesystem::path place = std::filesystem::path(testing::TempDir()) / "torso";
  std::filesystem::remove_all(place);
  const std::string expected = trained_stripes(settings);
  {
    std::vector<std::string> half = settings;
    half.push_back("steps=" + steps_of(2));
    flotilla::Run run(stripes_run(half), place);
    run.train();
  }
  const auto resumed = flotilla::Run::resume(
      registry(), place, [](Config& config) { config.set("steps", steps_of(4)); });
  resumed->train();
  EXPECT_EQ(resumed->trainer().params_sha256(), expected);
}

TEST(Images, GoOnToTheBit) { expect_going_on({"net.torso=impala"}); }
TEST(Groups, GoOnToTheBit) { expect_going_on(kAttention); }

}  // namespace
}  // namespace flotilla::test
