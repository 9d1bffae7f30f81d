// A curriculum: the settings of a run change on the way, and it resumes to the bit all the same.
#include "flotilla/train/curriculum.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "flotilla/core/file.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

RunConfig run_with(const std::string& phases, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"num_envs=8",          "n_steps=16",
                                       "net.hidden=16,16",    "ppo.minibatches=2",
                                       "ppo.n_epochs=1",      "total_timesteps=6400",
                                       "save_freq=128",       "eval.episodes=2",
                                       "normalize_obs=true",  "normalize_reward=true",
                                       "curriculum=" + phases};
  settings.insert(settings.end(), more.begin(), more.end());
  const Config config = load_run_config(registry(), "pendulum", true, settings);
  return RunConfig(env_of(registry(), config), config);
}

std::string refusal(const std::string& phases) {
  return error_text(ErrorCode::kUsage, [&] {
    const RunConfig run = run_with(phases);
    const std::vector<CurriculumPhase> parsed = phases_of(run);
    for (size_t i = 0; i < parsed.size(); ++i) in_phase(run, parsed, i, built_in_algorithms());
  });
}

TEST(Curriculum, AreRead) {
  const std::vector<CurriculumPhase> phases = phases_of(
      run_with("env.length=0.5 ppo.ent_coef=0.1 until_steps=1k; mass=2 until_score=-200;length=1"));
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].settings, (std::vector<std::string>{"env.length=0.5", "ppo.ent_coef=0.1"}));
  EXPECT_EQ(phases[0].until_steps, 1000);
  EXPECT_EQ(phases[1].until_score, -200);
  EXPECT_FALSE(phases[2].until_score);
  EXPECT_EQ(phases_of(run_with("")).size(), 1u);
}

TEST(Curriculum, AreAListOfMapsInYaml) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("flotilla-curriculum-" + std::to_string(::getpid()) + ".yaml");
  const auto load = [&path](const std::string& yaml) {
    std::ofstream(path) << "env: pendulum\n" << yaml;
    return load_run_config(registry(), path.string(), true, {}).get_text("curriculum");
  };
  EXPECT_EQ(load("curriculum:\n  - env: {length: 0.5, mass: 2}\n    until_steps: 1k\n"
                 "  - ppo.gamma: 0.9\n"),
            "env.length=0.5 env.mass=2 until_steps=1k; ppo.gamma=0.9");
  EXPECT_EQ(load("curriculum: until_steps=5; env.mass=2\n"), "until_steps=5; env.mass=2");
  const auto refused = [&](const std::string& yaml) {
    const std::string text = error_text(ErrorCode::kUsage, [&] { load(yaml); });
    return text.substr(std::min(text.size(), path.string().size()));
  };
  EXPECT_EQ(refused("curriculum: [5]\n"), ":2: expected a map, got '5'");
  EXPECT_EQ(refused("curriculum: [{env.mass: [1]}]\n"),
            ":2: expected a value in the list, got a list");
  EXPECT_EQ(refused("curriculum: [{env.mass: 1 2}]\n"), ":2: a blank or ';' in '1 2'");
  EXPECT_EQ(refused("curriculum: [{env.mass: }]\n"),
            ":2: expected a value in the list, got nothing");
  std::filesystem::remove(path);
}

TEST(Curriculum, AreRefusedBeforeTheFirstBegins) {
  EXPECT_EQ(refusal("env.mass=2; env.mass=3"),
            "curriculum: phase 1: has no end: give until_steps or until_score");
  EXPECT_EQ(refusal("until_steps=5; until_steps=5"),
            "curriculum: phase 2: is the last one, which lasts as long as the run");
  EXPECT_EQ(refusal("until_steps=5; mas=2"),
            "curriculum: phase 2: unknown key 'mas'; did you mean 'mass'?");
  EXPECT_EQ(refusal("until_steps=many; mass=2"),
            "curriculum: phase 1: until_steps: expected an integer of at least 0, got 'many'");
  EXPECT_EQ(refusal("until_steps=5; num_envs=2"),
            "curriculum: phase 2: num_envs cannot change within a run");
  EXPECT_EQ(refusal("until_steps=5; net.hidden=2"),
            "curriculum: phase 2: net.hidden cannot change within a run");
  EXPECT_EQ(refusal("until_steps=5; mass"), "curriculum: phase 2: expected key=value, got 'mass'");
}

class CurriculumRun : public testing::Test {
 protected:
  ~CurriculumRun() override {
    std::filesystem::remove_all(whole_);
    std::filesystem::remove_all(parts_);
  }
  const std::string base_ =
      std::filesystem::temp_directory_path() / ("flotilla-curriculum-" + std::to_string(getpid()));
  const std::string whole_ = base_ + "-whole", parts_ = base_ + "-parts";
};

TEST_F(CurriculumRun, ChangeTheEnvironmentOnTheWay) {
  flotilla::Run run(run_with("env.mass=0.5 until_steps=1000; env.mass=2"), whole_);
  std::vector<int64_t> heavy;
  run.train([&](const Progress& progress) {
    const Config& env = run.trainer().run().env_config;
    if (env.get_number("mass") == 2) heavy.push_back(progress.steps);
  });
  // Updates are of 128 steps: the first phase ends with the one that reaches 1000.
  ASSERT_FALSE(heavy.empty());
  EXPECT_EQ(heavy.front(), 1024 + 128);
  EXPECT_EQ(heavy.back(), 6400);
  EXPECT_EQ(run.ended_by(), "total_timesteps");
}

TEST_F(CurriculumRun, ResumesToTheBit) {
  const std::string phases =
      "env.mass=0.5 ppo.learning_rate=0.001 until_steps=1000; env.mass=2 until_steps=2000; mass=1";
  std::string expected;
  {
    flotilla::Run run(run_with(phases), whole_);
    run.train();
    run.finish();
    expected = run.trainer().params_sha256();
  }
  EXPECT_NE(expected, [] {
    Trainer other(run_with(""));
    other.train();
    return other.params_sha256();
  }());
  // Stopped in every phase, before and right behind its beginning.
  flotilla::Run(run_with(phases, {"total_timesteps=512"}), parts_).train();
  for (const int64_t stop : {1024, 1152, 2944, 3072, 5120, 6400}) {
    const auto run = flotilla::Run::resume(registry(), parts_, [&](Config& config) {
      config.set("total_timesteps", std::to_string(stop));
    });
    run->train();
    EXPECT_EQ(run->trainer().progress().steps, stop);
    if (stop == 6400) {
      EXPECT_EQ(run->trainer().params_sha256(), expected);
    }
  }
  const auto returns = [](const std::string& path) {
    std::istringstream lines(read_whole_file(path + "/metrics.jsonl", 1 << 20));
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) {
      const auto begin = line.find("\"charts/return_mean_100\"");
      all.push_back(begin == line.npos ? "" : line.substr(begin, line.find(',', begin) - begin));
    }
    return all;
  };
  EXPECT_EQ(returns(parts_), returns(whole_));
  // No episode of 200 steps has ended in the first phase, which is of 128, nor right behind it.
  EXPECT_EQ(returns(whole_).front(), "");
}

TEST_F(CurriculumRun, EndByAScore) {
  // Every mean of 100 returns is above this one, so the phase ends with the update of its hundredth
  // episode.
  flotilla::Run run(run_with("time_limit=10 until_score=-1000; time_limit=20"), whole_);
  int64_t last = 0;
  run.train([&](const Progress& progress) {
    if (run.trainer().env_spec().time_limit == 10) last = progress.steps;
  });
  EXPECT_EQ(last, 1152);  // 8 envs, 10 steps an episode: 96 of them after 1024 steps
}

// An episode of 20 steps has about twice the costs of one of 10.
TEST_F(CurriculumRun, HaveABestReturnOfTheirOwn) {
  flotilla::Run run(run_with("time_limit=10 until_steps=1600; time_limit=20"), whole_);
  double best_of_10 = 0, best_of_20 = 0;
  run.train([&](const Progress& progress) {
    const bool first = run.trainer().env_spec().time_limit == 10;
    (first ? best_of_10 : best_of_20) = progress.return_best;
  });
  EXPECT_LT(best_of_10, 0);
  EXPECT_LT(best_of_20, 1.5 * best_of_10);
}

}  // namespace
}  // namespace flotilla::test
