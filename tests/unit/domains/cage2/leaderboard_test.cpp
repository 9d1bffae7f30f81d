// The settings of the leaderboard, against games that are played one by one.
#include "flotilla/domains/cage2/leaderboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/defender.h"
#include "support/source_dir.h"
#include "unit/domains/cage2/files.h"

namespace flotilla::cage2 {
namespace {

namespace fs = std::filesystem;

double played_alone(const Cage2& env, const Policy& policy, int steps, Rng rng) {
  std::vector<float> obs(env.spec().obs.elements());
  std::vector<uint8_t> mask(env.spec().action.mask_size());
  State state{};
  env.reset(state, rng);
  for (int i = 0; i < steps; ++i) {
    env.observe(state, {obs.data(), obs.size()});
    env.mask(state, mask);
    int32_t choice = 0;
    std::byte* out = std::as_writable_bytes(std::span(&choice, 1)).data();
    policy.act(0,
               {.count = 1,
                .obs = std::as_bytes(std::span(obs)).data(),
                .mask = mask.data(),
                .action = out,
                .latent = out},
               {.greedy = true});
    env.step(state, ActionRow(&choice), rng);
  }
  return -state.cost / 10.0;
}

Score score_of(const std::vector<double>& rewards) {
  const auto n = static_cast<double>(rewards.size());
  double sum = 0, squares = 0;
  for (const double reward : rewards) {
    sum += reward;
    squares += reward * reward;
  }
  return {.mean = sum / n, .error = std::sqrt((squares - sum * sum / n) / (n - 1) / n)};
}

TEST(Leaderboard, OfSeveralPoliciesIsTheirMean) {
  std::vector<Leaderboard> boards(3);
  for (size_t p = 0; p < boards.size(); ++p) {
    boards[p].settings.resize(kSettings, {.mean = -1.0 - static_cast<double>(p), .error = 0.1});
    boards[p].total = {.mean = -50.0 - 2 * static_cast<double>(p), .error = 0.1};
  }
  const Leaderboard mean = mean_of(boards);
  EXPECT_EQ(mean.policies, 3);
  EXPECT_DOUBLE_EQ(mean.settings[4].mean, -2);
  EXPECT_NEAR(mean.settings[4].error, 1 / std::sqrt(3), 1e-12);
  EXPECT_DOUBLE_EQ(mean.total.mean, -52);
  EXPECT_NEAR(mean.total.ci95(), 4.30 * 2 / std::sqrt(3), 1e-9);  // not that of episodes
  EXPECT_NE(leaderboard_text(std::span(&mean, 1), 10).find("mean of 3 policies (version legacy)"),
            std::string::npos);
}

TEST(Leaderboard, IsMadeOfGamesPlayedOneByOne) {
  const PolicyFile file = shipped_defender();
  const Defender defender = defender_of(file);
  // More than play at once, or other rules and another seed.
  for (const LeaderboardOptions& options :
       {LeaderboardOptions{.episodes = 130, .legacy = true, .seed = 0},
        LeaderboardOptions{.episodes = 5, .legacy = false, .seed = 7}}) {
    const Leaderboard board = play_leaderboard(file, options);
    ASSERT_EQ(board.settings.size(), size_t{kSettings});
    double total = 0, variance = 0;
    uint64_t game = 0;
    for (size_t i = 0; i < kSettings; ++i) {
      SCOPED_TRACE(kSettingNames[i]);
      Config config = defender.config;
      config.set("version", options.legacy ? "legacy" : "head");
      config.set("red", std::vector<std::string>{"bline", "meander", "sleep"}[i % 3]);
      config.set("green", "false");
      config.set("alignment", "none");
      const Cage2 env(config);
      std::vector<double> rewards;
      for (int k = 0; k < options.episodes; ++k) {
        rewards.push_back(played_alone(env, *defender.policy, std::vector{30, 50, 100}[i / 3],
                                       Rng(options.seed, stream_of(Purpose::kEnv, game++))));
      }
      const Score expected = score_of(rewards);
      EXPECT_NEAR(board.settings[i].mean, expected.mean, 1e-9);
      EXPECT_NEAR(board.settings[i].error, expected.error, 1e-6);
      total += expected.mean;
      variance += expected.error * expected.error;
    }
    EXPECT_NEAR(board.total.mean, total, 1e-9);
    EXPECT_NEAR(board.total.error, std::sqrt(variance), 1e-6);
    EXPECT_LT(board.total.mean, -10);
  }
}

TEST(Leaderboard, BothVersionsStandInTheirPlaces) {
  const auto board = [](bool legacy, double total) {
    return Leaderboard{.legacy = legacy,
                       .settings = std::vector<Score>(kSettings, {-1, 0.5}),
                       .total = {total, 0.1}};
  };
  const std::vector<Leaderboard> boards = {board(false, -56.5), board(true, -50)};
  const std::string text = leaderboard_text(boards, 7);
  const auto place = [&text](const char* words) { return text.find(words); };
  EXPECT_LT(place("version legacy"), place("CardiffUni"));
  EXPECT_LT(place("CardiffUni"), place("version head"));
  EXPECT_LT(place("version head"), place("Keeping it RL"));
  EXPECT_NE(place("+- (95 %)"), std::string::npos);
  EXPECT_NE(place("0.98"), std::string::npos);  // 1.96 times 0.5
  EXPECT_NE(place("version head: total -56.50 +- 0.20 (95 %), 7 episodes"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::cage2
