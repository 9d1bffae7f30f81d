// A run in its directory: training and the thread that writes checkpoints do not disturb each
// other, and what is resumed ends like what was not stopped.
#include "flotilla/train/run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "flotilla/core/file.h"
#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/error_text.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

RunConfig with_many_checkpoints() {
  const Config config = load_run_config(
      registry(), "pendulum", true,
      {"num_envs=8", "horizon=16", "steps=6400", "net.hidden=16,16", "ppo.minibatches=2",
       "ppo.epochs=1", "backend=threads", "threads=2", "checkpoint.every=128", "checkpoint.keep=3",
       "eval.every=10", "eval.episodes=2", "net.normalise_obs=true"});
  return RunConfig(env_of(registry(), config), config);
}

class RunTest : public testing::Test {
 protected:
  ~RunTest() override { std::filesystem::remove_all(path_); }
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("flotilla-run-" + std::to_string(getpid()));
};

TEST_F(RunTest, WritesACheckpointAfterEveryUpdateWhileItTrains) {
  std::string expected;
  {
    flotilla::Run run(with_many_checkpoints(), path_);
    int updates = 0;
    run.train([&](const Progress&) { ++updates; });
    run.finish();
    EXPECT_EQ(updates, 50);
    expected = run.trainer().params_sha256();
  }
  const std::string metrics = read_whole_file(path_ + "/metrics.jsonl", 1 << 20);
  EXPECT_EQ(std::ranges::count(metrics, '\n'), 50);

  // The last three and the best stay.
  const std::vector<int64_t> steps = Checkpoints(path_).steps();
  ASSERT_GE(steps.size(), 3u);
  ASSERT_LE(steps.size(), 4u);
  EXPECT_EQ(steps.back(), 6400);
  EXPECT_EQ(steps[steps.size() - 3], 6400 - 2 * 128);

  const auto resumed = flotilla::Run::resume(registry(), path_, {}, 6400 - 2 * 128);
  EXPECT_NE(resumed->trainer().params_sha256(), expected);
  resumed->train();
  EXPECT_EQ(resumed->trainer().params_sha256(), expected);
}

TEST_F(RunTest, ACallbackStopsItInOrder) {
  std::string expected;
  {
    flotilla::Run run(with_many_checkpoints(), path_ + "-whole");
    run.train();
    EXPECT_EQ(run.ended_by(), "total_timesteps");
    expected = run.trainer().params_sha256();
  }
  std::filesystem::remove_all(path_ + "-whole");
  {
    flotilla::Run run(with_many_checkpoints(), path_);
    EXPECT_EQ(run.ended_by(), "");
    run.train([](const Progress& progress) { return progress.updates < 7; });
    EXPECT_EQ(run.trainer().progress().updates, 7);
    EXPECT_TRUE(run.finished());
    EXPECT_EQ(run.ended_by(), "callback");
    const std::string summary = run.finish();
    EXPECT_NE(summary.find(R"("ended_by": "callback")"), summary.npos) << summary;
  }
  EXPECT_EQ(Checkpoints(path_).steps().back(), 7 * 128);
  const std::string history = read_whole_file(path_ + "/history.jsonl", 1 << 20);
  EXPECT_NE(history.find(R"("ended_by":"callback")"), history.npos) << history;

  // What was stopped goes on as if it had not been.
  const auto resumed = flotilla::Run::resume(registry(), path_);
  EXPECT_FALSE(resumed->was_finished());
  resumed->train();
  EXPECT_EQ(resumed->ended_by(), "total_timesteps");
  EXPECT_EQ(resumed->trainer().params_sha256(), expected);
}

// Nothing is damaged, so no checkpoint before it is offered.
TEST_F(RunTest, CountsAndPhasesOfACheckpointCannotBecomeOthers) {
  const auto resume = [this](const std::string& setting) {
    return flotilla::Run::resume(registry(), path_,
                                 [&](Config& config) { config.apply_override(setting); });
  };
  const auto begin = [this](const Overrides& more) {
    std::filesystem::remove_all(path_);
    const RunConfig run =
        run_config("pendulum", with({"num_envs=4", "n_steps=16", "steps=256", "net.hidden=8",
                                     "ppo.minibatches=2", "backend=serial", "eval.episodes=0"},
                                    more));
    flotilla::Run(run, path_).train();
  };
  const auto refused = [&](const std::string& setting) {
    const std::string text = error_text(ErrorCode::kUsage, [&] { resume(setting); });
    const std::string key = setting.substr(0, setting.find('='));
    EXPECT_TRUE(text.starts_with("a resumed run cannot change " + key + " from ")) << text;
  };
  begin({"explore.bonus=0.1", "explore.resolution=0.5"});
  for (const char* setting : {"explore.bonus=0", "explore.cells=1024", "explore.resolution=1"}) {
    refused(setting);
  }
  EXPECT_EQ(resume("explore.bonus=0.2")->changes().size(), 1u);

  begin({"curriculum=until_steps=64; mass=2 until_steps=64; mass=3"});
  for (const char* phases : {"until_steps=64; mass=2", "until_steps=64; mass=4", "time_limit=10"}) {
    refused("curriculum=" + std::string(phases));
  }
  begin({"explore.bonus_schedule=linear"});
  refused("explore.bonus_last=0.1");
}

TEST_F(RunTest, SaysThatAnEvaluationEndedIt) {
  Config config = with_many_checkpoints().config;
  config.set("eval.stop_at", "-100000");
  flotilla::Run run(RunConfig(env_of(registry(), config), config), path_);
  run.train();
  EXPECT_EQ(run.trainer().progress().updates, 10);
  EXPECT_TRUE(run.ended_by().starts_with("eval.stop_at: ")) << run.ended_by();
}

}  // namespace
}  // namespace flotilla::test
