// Training that starts from the policy of another run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "flotilla/train/find_policy.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "support/batch.h"
#include "support/error_text.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

RunConfig short_run(const std::string& env, const std::vector<std::string>& more) {
  std::vector<std::string> settings = {"num_envs=8", "n_steps=16", "eval.episodes=2",
                                       "total_timesteps=1280"};
  settings.insert(settings.end(), more.begin(), more.end());
  return run_config(env, settings);
}

class WarmStart : public testing::Test {
 protected:
  WarmStart() {
    flotilla::Run run(short_run("pendulum", {"net.hidden=16,8", "net.activation=relu",
                                             "normalize_obs=true", "normalize_reward=true"}),
                      first_);
    run.train();
    run.finish();
    const Policy& policy = run.trainer().policy();
    params_ = run.trainer().params_sha256();
    moments_ = policy.obs_normaliser().moments().numbers();
    reward_moments_ = policy.reward_normaliser().moments().numbers();
  }
  ~WarmStart() override {
    std::filesystem::remove_all(first_);
    std::filesystem::remove_all(second_);
  }
  std::string refusal(ErrorCode code, const std::string& env,
                      const std::vector<std::string>& more) {
    return error_text(code, [&] { flotilla::Run(short_run(env, more), second_); });
  }

  const std::string base_ =
      std::filesystem::temp_directory_path() / ("flotilla-warm-" + std::to_string(getpid()));
  const std::string first_ = base_ + "-first", second_ = base_ + "-second";
  std::string params_;
  std::vector<double> moments_, reward_moments_;
};

TEST_F(WarmStart, HasTheWeightsTheNormalisersAndTheNetwork) {
  const RunConfig config =
      short_run("pendulum", {"init=" + first_, "env.mass=2", "normalize_reward=true"});
  EXPECT_EQ(config.network.hidden, (std::vector<int>{16, 8}));
  flotilla::Run run(config, second_);
  const Policy& policy = run.trainer().policy();
  EXPECT_EQ(run.trainer().params_sha256(), params_);
  EXPECT_EQ(policy.obs_normaliser().moments().numbers(), moments_);
  EXPECT_EQ(policy.reward_normaliser().moments().numbers(), reward_moments_);
  EXPECT_EQ(run.trainer().progress().steps, 0);
  run.train();
  EXPECT_NE(run.trainer().params_sha256(), params_);
  // What was started from counts as seen.
  EXPECT_EQ(policy.obs_normaliser().moments().numbers()[0], moments_[0] + 1280);
}

TEST_F(WarmStart, ResumesWithoutWhatItStartedFrom) {
  std::string expected;
  {
    flotilla::Run run(short_run("pendulum", {"init=" + first_}), second_);
    run.train();
    expected = run.trainer().params_sha256();
  }
  std::filesystem::remove_all(first_);
  const auto run = flotilla::Run::resume(registry(), second_, {}, 0);
  run->train();
  EXPECT_EQ(run->trainer().params_sha256(), expected);
}

TEST_F(WarmStart, RefusesWhatDoesNotFit) {
  EXPECT_NE(refusal(ErrorCode::kData, "cartpole", {"init=" + first_}).find("has actions"),
            std::string::npos);
  const std::string origin = Checkpoints(first_).model_path(1280);
  const auto mistake = [&](const std::string& setting) {
    return refusal(ErrorCode::kUsage, "pendulum", {"init=" + first_, setting});
  };
  const std::string as = ", as the policy of init has it (" + origin + "); got ";
  EXPECT_EQ(mistake("net.hidden=4"), "net.hidden: expected 16,8" + as + "4");
  EXPECT_EQ(mistake("net.shared=true"), "net.shared: expected false" + as + "true");
  EXPECT_EQ(mistake("normalize_obs=false"), "normalize_obs: expected true" + as + "false");
  EXPECT_FALSE(std::filesystem::exists(second_));
  flotilla::Run(short_run("pendulum", {"init=" + first_, "net.hidden=16, 8", "net.init=default"}),
                second_);
  EXPECT_EQ(refusal(ErrorCode::kUsage, "pendulum", {"init=nowhere"}),
            "there is no run or policy file 'nowhere'");
}

}  // namespace
}  // namespace flotilla::test
