// Checkpoints: a run that goes on from one, and files that were torn, altered or are of another
// run.
#include "flotilla/train/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

RunConfig saved_run(const std::string& env, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"num_envs=6",
                                  "horizon=8",
                                  "steps=480",
                                  "net.hidden=8",
                                  "ppo.minibatches=2",
                                  "net.normalise_obs=true",
                                  "backend=serial",
                                  "normalise_reward=true",
                                  "ppo.lr_schedule=linear"};
  all.insert(all.end(), more.begin(), more.end());
  const Config config = load_run_config(registry(), env, true, all);
  return RunConfig(env_of(registry(), config), config);
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : run_(saved_run("cartpole")), checkpoints_(Directory::make(root())) {}
  ~CheckpointTest() override { fs::remove_all(root()); }

  static std::string root() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return fs::temp_directory_path() /
           ("flotilla-checkpoint-" + std::to_string(getpid()) + "-" + test->name());
  }
  // A trainer after some updates, with a checkpoint of each.
  void make(int updates, const std::string& run_id = "") {
    Trainer trainer(run_);
    checkpoints_.write(take_checkpoint(trainer, run_, {}, run_id), false);
    for (int i = 0; i < updates; ++i) {
      trainer.iterate();
      checkpoints_.write(take_checkpoint(trainer, run_, {}, run_id), false);
    }
  }
  std::string refusal(const RunConfig& run, int64_t step) {
    Trainer trainer(run);
    const std::string before = trainer.params_sha256();
    const std::string text =
        error_text(ErrorCode::kData, [&] { checkpoints_.load(step, trainer); });
    EXPECT_EQ(trainer.params_sha256(), before) << "nothing is changed by what is refused";
    return text;
  }

  RunConfig run_;
  Checkpoints checkpoints_;
};

TEST_F(CheckpointTest, ARunGoesOnFromEveryOne) {
  make(4);
  Trainer whole(run_);
  whole.train(nullptr);
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{0, 48, 96, 144, 192}));
  for (const int64_t step : checkpoints_.steps()) {
    Trainer resumed(run_);
    checkpoints_.load(step, resumed);
    EXPECT_EQ(resumed.progress().steps, step);
    resumed.train(nullptr);
    EXPECT_EQ(resumed.params_sha256(), whole.params_sha256()) << "from step " << step;
  }
}

TEST_F(CheckpointTest, EveryAlteredByteIsNoticed) {
  make(1);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const std::string path = checkpoints_.path(48) + "/" + name, whole = read(path);
    ASSERT_GT(whole.size(), 100u);
    for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 40) {
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ 0x10);
      write(path, altered);
      const std::string text = refusal(run_, 48);
      EXPECT_TRUE(text.starts_with(path)) << text;
    }
    // The last byte of state.json is a line end that nobody misses.
    for (const size_t length : {size_t{0}, size_t{7}, whole.size() / 2, whole.size() - 2}) {
      write(path, whole.substr(0, length));
      EXPECT_TRUE(refusal(run_, 48).starts_with(path)) << name << " cut to " << length;
    }
    fs::remove(path);
    EXPECT_NE(refusal(run_, 48).find(path), std::string::npos);
    write(path, whole);
  }
  Trainer trainer(run_);
  checkpoints_.load(48, trainer);
}

TEST_F(CheckpointTest, ForeignOnesAreRefusedByName) {
  make(1);
  EXPECT_NE(refusal(saved_run("pendulum"), 48).find("is of 'cartpole', this run is of 'pendulum'"),
            std::string::npos);
  EXPECT_NE(refusal(saved_run("cartpole", {"env.time_limit=77"}), 48)
                .find("with other observations, actions or limits"),
            std::string::npos);
  EXPECT_NE(refusal(saved_run("cartpole", {"net.hidden=9"}), 48).find("actor.0.bias"),
            std::string::npos);
  const std::string path = checkpoints_.path(48) + "/state.json";
  std::string text = read(path);
  text.replace(text.find("\"format\": 2"), 11, "\"format\": 3");
  write(path, text);
  EXPECT_EQ(refusal(run_, 48), path + ": has format 3, this program reads 2");
}

TEST_F(CheckpointTest, OldOnesArePruned) {
  Trainer trainer(run_);
  const auto write_next = [&](int64_t best_step) {
    trainer.iterate();
    const BestEvaluation best{.step = best_step, .mean = 0, .since = 0};
    checkpoints_.write(take_checkpoint(trainer, run_, best), false);
    checkpoints_.prune(2, "");
  };
  for (const int64_t best : {48, 48, 48, 48}) write_next(best);
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{48, 144, 192}));
  write_next(240);  // better, but who goes on from 192 has the one before
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{48, 192, 240}));
  write_next(240);
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{240, 288}));
}

TEST_F(CheckpointTest, NothingOfOthersIsPruned) {
  make(5, "mine");
  const auto path = [this](int64_t step, const char* name) {
    return checkpoints_.path(step) + "/" + name;
  };
  write(path(48, "notes.txt"), "of the user");
  write(path(96, "state.json"), "damaged");
  write(path(144, "model.safetensors"), "altered");
  fs::create_directory(checkpoints_.path(7));
  write(path(7, "thesis.tex"), "of the user");
  checkpoints_.prune(1, "another");
  EXPECT_EQ(checkpoints_.steps().size(), 7u);
  Checkpoints(root()).prune(1, "mine");
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{7, 48, 96, 144, 240}));
  EXPECT_EQ(read(path(48, "notes.txt")), "of the user");
  EXPECT_EQ(read(path(48, "model.safetensors")).empty(), false);
}

TEST_F(CheckpointTest, WhatWouldStandBeforeTheNextOnesIsSetAside) {
  make(4, "mine");
  write(checkpoints_.path(192) + "/state.json", "damaged");
  write(checkpoints_.path(144) + "/notes.txt", "of the user");
  write(checkpoints_.path(96) + "/model.safetensors", "damaged");
  fs::create_directories(checkpoints_.path(240) + ".part");
  write(checkpoints_.path(240) + ".part/state.json", "of somebody else");
  for (const int step : {288, 336}) fs::create_directories(checkpoints_.path(step) + ".mine.part");
  write(checkpoints_.path(288) + ".mine.part/model.safetensors", "half");
  write(checkpoints_.path(336) + ".mine.part/notes.txt", "of the user");
  write(root() + "/checkpoints/thesis.part", "of the user");
  checkpoints_.cut(48, "mine");
  std::vector<std::string> expected = {
      "step_0",  "step_144.aside", "step_192.aside", "step_240.part", "step_336.mine.part.aside",
      "step_48", "step_96.aside",  "thesis.part"};
  EXPECT_EQ(Directory(root()).folder("checkpoints").names(), expected);
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{0, 48}));
}

TEST_F(CheckpointTest, WhatIsThereIsNotReplaced) {
  make(0);
  write(checkpoints_.path(0) + "/notes.txt", "of the user");
  const Trainer trainer(run_);
  EXPECT_TRUE(error_text(ErrorCode::kData, [&] {
                checkpoints_.write(take_checkpoint(trainer, run_, {}), false);
              }).starts_with("cannot write " + checkpoints_.path(0)));
  EXPECT_EQ(read(checkpoints_.path(0) + "/notes.txt"), "of the user");
}

TEST_F(CheckpointTest, WhatIsHalfWrittenIsNone) {
  make(1);
  fs::create_directories(checkpoints_.path(96) + ".part");
  fs::create_directories(checkpoints_.path(0) + "x");
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{0, 48}));
  Trainer trainer(run_);
  trainer.iterate();
  trainer.iterate();
  checkpoints_.write(take_checkpoint(trainer, run_, {}), false);  // over the remains of another
  EXPECT_EQ(checkpoints_.steps(), (std::vector<int64_t>{0, 48, 96}));
  EXPECT_FALSE(fs::exists(checkpoints_.path(96) + ".part"));
}

}  // namespace
}  // namespace flotilla::test
