// The policy of a run, as programs load it that only act; and the light runtime in its place, in
// every environment there is.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "flotilla/train/find_policy.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

class LoadPolicy : public testing::Test {
 protected:
  ~LoadPolicy() override { std::filesystem::remove_all(path_); }

  // A run with checkpoints every 128 of 512 steps.
  std::unique_ptr<flotilla::Run> train() const {
    const Config config =
        load_run_config(registry(), "cartpole", true,
                        {"num_envs=8", "horizon=16", "steps=512", "checkpoint.every=128"});
    auto run =
        std::make_unique<flotilla::Run>(RunConfig(env_of(registry(), config), config), path_);
    run->train();
    run->finish();
    return run;
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("flotilla-load-policy-" + std::to_string(getpid()));
};

TEST_F(LoadPolicy, OfARunOrAFile) {
  const auto run = train();
  const std::array<float, 4> obs = {0.01F, 0.2F, -0.03F, -0.4F};
  const int expected = run->trainer().policy().predict(obs).discrete();
  const auto policy = load_policy(path_);
  EXPECT_EQ(policy->predict(obs).discrete(), expected);
  EXPECT_EQ(sha256(policy->parameters()), run->trainer().params_sha256());
  EXPECT_NE(sha256(load_policy(path_, "384")->parameters()), run->trainer().params_sha256());
  const std::string file = Checkpoints(path_).model_path(512);
  EXPECT_EQ(sha256(load_policy(file)->parameters()), run->trainer().params_sha256());
  EXPECT_EQ(Inference(file).predict(obs).discrete(), expected);
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { load_policy(path_ + "/nowhere"); }),
            "there is no run or policy file '" + path_ + "/nowhere'");
}

TEST_F(LoadPolicy, AChoiceOfCheckpointsNeedsARun) {
  train();
  const std::string file = Checkpoints(path_).model_path(384);
  const std::string folder = std::filesystem::path(file).parent_path();
  for (const std::string& path : {file, folder}) {
    EXPECT_EQ(sha256(load_policy(path, "last")->parameters()),
              sha256(load_policy(path_, "384")->parameters()));
    for (const std::string which : {"77", "384", "best"}) {
      EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { load_policy(path, which); }),
                "--checkpoint " + which + ": expected the directory of a run, '" + path +
                    "' is one policy");
    }
  }
}

TEST_F(LoadPolicy, ALinkIsFollowedWhereItIsTheNameThatWasGiven) {
  namespace fs = std::filesystem;
  train();
  const std::string file = Checkpoints(path_).model_path(512);
  const std::string cache = path_ + "/cache", link = cache + "/model.safetensors";
  fs::create_directory(cache);
  fs::create_symlink(file, link);
  EXPECT_EQ(sha256(load_policy(link)->parameters()), sha256(load_policy(file)->parameters()));
  const std::string refusal = "cannot read " + link + ": it is a symbolic link";
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { load_policy(cache); }), refusal);
  fs::copy_file(Checkpoints(path_).path(384) + "/state.json", cache + "/state.json");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { load_policy(link); }),
            link + ": does not match its checksum");
}

// Acts by the light runtime, row by row.
void act(Inference& inference, const EnvSpec& env, const ActRows& rows) {
  const size_t obs_bytes = env.obs.row_bytes(), action_bytes = env.action.dims() * sizeof(float);
  for (size_t i = 0; i < static_cast<size_t>(rows.count); ++i) {
    PredictOptions options;
    if (rows.mask != nullptr) {
      options.action_masks = {rows.mask + i * env.action.mask_size(), env.action.mask_size()};
    }
    const std::byte* obs = rows.obs + i * obs_bytes;
    const Action& action =
        env.obs.type == ObsType::kUint8
            ? inference.predict({reinterpret_cast<const uint8_t*>(obs), env.obs.elements()},
                                options)
            : inference.predict({reinterpret_cast<const float*>(obs), env.obs.elements()}, options);
    std::memcpy(rows.action + i * action_bytes, action.data(), action_bytes);
  }
}

TEST(LightRuntime, PlaysAsTheEngineInEveryEnvironment) {
  for (const EnvType& type : shipped().types()) {
    if (type.name == "faulty") continue;
    SCOPED_TRACE(type.name);
    const Config config(type.schema);
    const EnvSpec env = type.spec(config, 0);
    Config net(NetworkSpec::schema());
    net.set("normalise_obs", "true");
    const auto policy = make_policy(NetworkSpec::from(net, "", env), {.seed = 5});
    Inference inference =
        Inference::from_bytes(encode_policy(*policy, env, {type.name, "", 0, 0}), type.name);
    EvalOptions options;
    options.episodes = 4;
    options.vec.time_limit = 200;
    Evaluator evaluator(type, config, options);
    const Evaluation engine = evaluator.play(*policy, false);
    const Evaluation light =
        evaluator.play([&](const ActRows& rows, uint64_t) { act(inference, env, rows); }, false);
    EXPECT_EQ(engine.mean, light.mean);
    EXPECT_EQ(engine.std, light.std);
    EXPECT_EQ(engine.mean_length, light.mean_length);
  }
}

}  // namespace
}  // namespace flotilla::test
