// The names that other libraries have for our settings.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/env/outside_code.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

Config cartpole_config(const std::vector<std::string>& settings) {
  return load_run_config(registry(), "cartpole", true, settings);
}

std::string refusal(const std::vector<std::string>& settings) {
  return error_text(ErrorCode::kUsage, [&] { cartpole_config(settings); });
}

struct Word {
  const char *name, *value, *key, *text;
};

// Names of Stable-Baselines3 and CleanRL, and those that earlier versions had.
TEST(Words, MeanTheKeys) {
  const std::vector<Word> words = {
      {"n_steps", "77", "n_steps", "77"},
      {"num_steps", "77", "n_steps", "77"},
      {"horizon", "77", "n_steps", "77"},
      {"n_envs", "8", "num_envs", "8"},
      {"total_timesteps", "1M", "total_timesteps", "1000000"},
      {"total_timesteps", "2.5e6", "total_timesteps", "2500000"},
      {"steps", "5k", "total_timesteps", "5000"},
      {"epochs", "9", "iterations", "9"},
      {"n_epochs", "3", "ppo.n_epochs", "3"},
      {"ppo.epochs", "3", "ppo.n_epochs", "3"},
      {"update_epochs", "3", "ppo.n_epochs", "3"},
      {"num_minibatches", "3", "ppo.minibatches", "3"},
      {"batch_size", "64", "ppo.batch_size", "64"},
      {"minibatch_size", "64", "ppo.batch_size", "64"},
      {"learning_rate", "0.5", "ppo.learning_rate", "0.5"},
      {"learning_rate_schedule", "linear", "ppo.learning_rate_schedule", "linear"},
      {"ppo.lr", "0.5", "ppo.learning_rate", "0.5"},
      {"lr_last", "0.25", "ppo.learning_rate_last", "0.25"},
      {"value_lr", "0.25", "ppo.value_learning_rate", "0.25"},
      {"clip_range", "0.5", "ppo.clip_range", "0.5"},
      {"ppo.clip", "0.5", "ppo.clip_range", "0.5"},
      {"clip_range_vf", "0.5", "ppo.clip_range_vf", "0.5"},
      {"value_clip", "0.5", "ppo.clip_range_vf", "0.5"},
      {"ent_coef", "0.5", "ppo.ent_coef", "0.5"},
      {"ent_coef_schedule", "cosine", "ppo.ent_coef_schedule", "cosine"},
      {"entropy_schedule", "cosine", "ppo.ent_coef_schedule", "cosine"},
      {"vf_coef", "0.5", "ppo.vf_coef", "0.5"},
      {"value_coef", "0.5", "ppo.vf_coef", "0.5"},
      {"gae_lambda", "0.5", "ppo.gae_lambda", "0.5"},
      {"ppo.lambda", "0.5", "ppo.gae_lambda", "0.5"},
      {"normalize_advantage", "false", "ppo.normalize_advantage", "none"},
      {"normalize_advantage", "true", "ppo.normalize_advantage", "minibatch"},
      {"advantage_scale", "batch", "ppo.normalize_advantage", "batch"},
      {"normalize_obs", "true", "normalize_obs", "true"},
      {"net.normalise_obs", "true", "normalize_obs", "true"},
      {"normalise_obs", "true", "normalize_obs", "true"},
      {"normalise_reward", "true", "normalize_reward", "true"},
      {"log_std_init", "-1", "net.log_std_init", "-1.0"},
      {"net.log_std", "-1", "net.log_std_init", "-1.0"},
      {"save_freq", "5k", "save_freq", "5000"},
      {"checkpoint.every", "5000", "save_freq", "5000"},
      {"eval_freq", "5k", "eval_freq", "5000"},
      {"eval.every", "7", "eval.every", "7"},  // updates, as ever
      // The section may be left out, and be given.
      {"gamma", "0.5", "ppo.gamma", "0.5"},
      {"hidden", "8,8", "net.hidden", "\"8,8\""},
  };
  for (const Word& word : words) {
    const Config config = cartpole_config({std::string(word.name) + "=" + word.value});
    EXPECT_EQ(config.text(word.key), word.text) << word.name;
    EXPECT_EQ(config.sha256(),
              cartpole_config({std::string(word.key) + "=" + word.value}).sha256());
  }
}

TEST(Words, OfOneKeyExcludeEachOther) {
  EXPECT_EQ(refusal({"n_steps=5", "horizon=6"}),
            "'n_steps' and 'horizon' are the same key: give one");
  EXPECT_EQ(refusal({"ppo.lr=1", "lr=1"}), "'ppo.lr' and 'lr' are the same key: give one");
  EXPECT_EQ(cartpole_config({"n_steps=5", "n_steps=6"}).get_integer("n_steps"), 6);
}

TEST(Words, AreSuggested) {
  EXPECT_EQ(refusal({"n_step=5"}), "unknown key 'n_step'; did you mean 'n_steps'?");
  EXPECT_EQ(refusal({"clip_rang=5"}), "unknown key 'clip_rang'; did you mean 'clip_range'?");
  EXPECT_EQ(refusal({"every=5"}), "unknown key 'every'; did you mean 'save_freq' or 'eval.every'?");
}

TEST(Words, InYaml) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("flotilla-words-" + std::to_string(::getpid()) + ".yaml");
  const auto load = [&path](const std::string& yaml) {
    std::ofstream(path) << yaml;
    return load_run_config(registry(), path.string(), true, {});
  };
  const Config config = load("env: cartpole\nhidden: [32, 16]\nppo:\n  n_epochs: 3\nn_steps: 5\n");
  EXPECT_EQ(config.get_text("env.name"), "cartpole");
  EXPECT_EQ(config.get_text("net.hidden"), "32,16");
  EXPECT_EQ(config.get_integer("ppo.n_epochs"), 3);
  EXPECT_EQ(config.get_integer("n_steps"), 5);
  const auto refused = [&](const std::string& yaml) {
    const std::string text = error_text(ErrorCode::kUsage, [&] { load("env: cartpole\n" + yaml); });
    return text.substr(std::min(text.size(), path.string().size()));
  };
  EXPECT_EQ(refused("horizon: 1\nn_steps: 2\n"),
            ":3: 'horizon' and 'n_steps' are the same key: give one");
  EXPECT_EQ(refused("hidden: [[1]]\n"), ":2: expected a value in the list, got a list");
  EXPECT_EQ(refused("hidden: [a: 1]\n"), ":2: expected a value in the list, got a map");
  EXPECT_EQ(refused("hidden: ['1,2']\n"), ":2: a comma in a value of a list");
  EXPECT_EQ(refused("n_steps: [1]\n"),
            ":2: n_steps: expected an integer from 1 to 1000000, got a list");
  std::filesystem::remove(path);
}

// Such an environment is asked for its keys before the run has any.
TEST(Words, ThatGiveAPythonEnvironmentTime) {
  const auto given = [](const std::vector<std::string>& settings) {
    give_time(settings);
    return outside_code().start_timeout_s;
  };
  EXPECT_EQ(given({"n_steps=8", "start_timeout_s=20"}), 60);
  EXPECT_EQ(given({"start_timeout_s=100", "start_timeout_s=300"}), 300);
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { given({"start_timeout_s=soon"}); }),
            refusal({"start_timeout_s=soon"}));
  python_settings() = {};
  outside_code() = {};
  python_settings().interpreter = "/no/such/python";
  const auto load = [] {
    parse_run_config(registry(), "env: gym:CartPole-v1\nstart_timeout_s: 400\n", "run.yaml",
                     built_in_algorithms());
  };
  EXPECT_NE(error_text(ErrorCode::kUsage, load), "");
  EXPECT_EQ(outside_code().start_timeout_s, 400);
  python_settings() = {};
  outside_code() = {};
}

}  // namespace
}  // namespace flotilla::test
