// Training on images: the same parameters whatever carries it out, and after a resume.
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

RunConfig run_of(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"num_envs=" + std::to_string(kEnvs), "horizon=" + std::to_string(kHorizon),
               "net.hidden=16", "ppo.minibatches=2", "policy=fused", "ppo.epochs=2",
               "steps=" + steps_of(4), "eval.every=0", "eval.episodes=2", "env.side=14"});
  const Config config = load_run_config(registry(), "test_stripes", true, more);
  return {env_of(registry(), config), config};
}

std::string trained(const std::vector<std::string>& more) {
  Trainer trainer(run_of(more));
  trainer.train(nullptr);
  return trainer.params_sha256();
}

TEST(Images, ParametersDoNotDependOnThreadsOrBackEnds) {
  for (const char* torso : {"net.torso=nature", "net.torso=impala"}) {
    const std::string side = torso == std::string("net.torso=nature") ? "env.side=36"  //
                                                                      : "env.side=14";
    const std::string expected = trained({torso, side, "backend=serial"});
    for (const char* threads : {"threads=1", "threads=2", "threads=3"}) {
      EXPECT_EQ(trained({torso, side, "backend=threads", threads}), expected) << torso << threads;
    }
    EXPECT_EQ(trained({torso, side, "backend=processes", "workers=2"}), expected) << torso;
  }
}

TEST(Images, GoOnToTheBit) {
  const std::filesystem::path place = std::filesystem::path(testing::TempDir()) / "images";
  std::filesystem::remove_all(place);
  const std::string expected = trained({"net.torso=impala"});
  {
    flotilla::Run run(run_of({"net.torso=impala", "steps=" + steps_of(2)}), place);
    run.train();
  }
  const auto resumed = flotilla::Run::resume(
      registry(), place, [](Config& config) { config.set("steps", steps_of(4)); });
  resumed->train();
  EXPECT_EQ(resumed->trainer().params_sha256(), expected);
}

}  // namespace
}  // namespace flotilla::test
