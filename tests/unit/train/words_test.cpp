// The names that other libraries have for our settings.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

Config config_of(const std::vector<std::string>& settings) {
  return load_run_config(registry(), "cartpole", true, settings);
}

std::string refusal(const std::vector<std::string>& settings) {
  return error_text(ErrorCode::kUsage, [&] { config_of(settings); });
}

struct Word {
  const char *name, *value, *key, *text;
};

TEST(Words, OfOtherLibrariesMeanOurKeys) {
  const std::vector<Word> words = {
      {"n_steps", "77", "horizon", "77"},
      {"total_timesteps", "1M", "steps", "1000000"},
      {"total_timesteps", "2.5e6", "steps", "2500000"},
      {"iterations", "9", "epochs", "9"},
      {"n_epochs", "3", "ppo.epochs", "3"},
      {"batch_size", "64", "ppo.minibatch_size", "64"},
      {"learning_rate", "0.5", "ppo.lr", "0.5"},
      {"learning_rate_schedule", "linear", "ppo.lr_schedule", "linear"},
      {"learning_rate_last", "0.25", "ppo.lr_last", "0.25"},
      {"clip_range", "0.5", "ppo.clip", "0.5"},
      {"clip_range_vf", "0.5", "ppo.value_clip", "0.5"},
      {"ent_coef", "0.5", "ppo.entropy", "0.5"},
      {"ent_coef_schedule", "cosine", "ppo.entropy_schedule", "cosine"},
      {"vf_coef", "0.5", "ppo.value_coef", "0.5"},
      {"gae_lambda", "0.5", "ppo.lambda", "0.5"},
      {"normalize_obs", "true", "net.normalise_obs", "true"},
      {"normalize_reward", "true", "normalise_reward", "true"},
      {"log_std_init", "-1", "net.log_std", "-1.0"},
      {"save_freq", "5k", "checkpoint.every", "5000"},
      // The section may be left out, and be given.
      {"gamma", "0.5", "ppo.gamma", "0.5"},
      {"hidden", "8,8", "net.hidden", "\"8,8\""},
      {"ppo.n_epochs", "3", "ppo.epochs", "3"},
      {"net.log_std_init", "-1", "net.log_std", "-1.0"},
  };
  for (const Word& word : words) {
    const Config config = config_of({std::string(word.name) + "=" + word.value});
    EXPECT_EQ(config.text(word.key), word.text) << word.name;
    // What is written has our names, so older programs and runs are understood.
    EXPECT_EQ(config.sha256(), config_of({std::string(word.key) + "=" + word.value}).sha256());
  }
}

TEST(Words, OfOneKeyExcludeEachOther) {
  EXPECT_EQ(refusal({"n_steps=5", "horizon=6"}),
            "'n_steps' and 'horizon' are the same key: give one");
  EXPECT_EQ(refusal({"ppo.lr=1", "lr=1"}), "'ppo.lr' and 'lr' are the same key: give one");
  EXPECT_EQ(config_of({"n_steps=5", "n_steps=6"}).get_integer("horizon"), 6);
}

TEST(Words, AreSuggested) {
  EXPECT_EQ(refusal({"n_step=5"}), "unknown key 'n_step'; did you mean 'n_steps'?");
  EXPECT_EQ(refusal({"clip_rang=5"}), "unknown key 'clip_rang'; did you mean 'clip_range'?");
  EXPECT_EQ(refusal({"every=5"}),
            "unknown key 'every'; did you mean 'eval.every' or 'checkpoint.every'?");
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
  EXPECT_EQ(config.get_integer("ppo.epochs"), 3);
  EXPECT_EQ(config.get_integer("horizon"), 5);
  const auto refused = [&](const std::string& yaml) {
    const std::string text = error_text(ErrorCode::kUsage, [&] { load("env: cartpole\n" + yaml); });
    return text.substr(std::min(text.size(), path.string().size()));
  };
  EXPECT_EQ(refused("horizon: 1\nn_steps: 2\n"),
            ":3: 'horizon' and 'n_steps' are the same key: give one");
  EXPECT_EQ(refused("hidden: [[1]]\n"), ":2: expected a value of the list, got a list");
  EXPECT_EQ(refused("hidden: [a: 1]\n"), ":2: expected a value of the list, got a map");
  EXPECT_EQ(refused("hidden: ['1,2']\n"), ":2: a comma in a value of a list");
  EXPECT_EQ(refused("n_steps: [1]\n"),
            ":2: horizon: expected an integer from 1 to 1000000, got a list");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace flotilla::test
