#include "flotilla/domains/cage2/leaderboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/defender.h"
#include "flotilla/report/text_table.h"
#include "flotilla/train/evaluator.h"

namespace flotilla::cage2 {
namespace {

constexpr std::array<const char*, 3> kReds = {"bline", "meander", "sleep"};
constexpr std::array<int, 3> kLengths = {30, 50, 100};

struct Published {
  const char* name;
  double total;
  std::array<double, kSettings> settings;
};
// The official final leaderboard, 1000 episodes each.
constexpr std::array<Published, 12> kPublished = {
    Published{"CardiffUni: PPO + greedy decoys",
              -54.57,
              {-3.47, -5.64, 0, -6.41, -8.69, 0, -13.76, -16.6, 0}},
    {"Keeping it RL: ensemble of ensembles",
     -56.9,
     {-3.48, -6.47, 0, -5.85, -10.33, 0, -11.39, -19.38, 0}},
    {"Mindrake: HIPPO float obs", -57.05, {-3.53, -6.76, 0, -6.2, -10.13, 0, -12.78, -17.65, 0}},
    {"Mindrake: HIPPO-heuristic", -57.29, {-3.69, -6.81, 0, -6.24, -10.09, 0, -12.86, -17.6, 0}},
    {"Mindrake: HIPPO bandit", -57.46, {-3.73, -6.85, 0, -6.65, -9.98, 0, -12.86, -17.39, 0}},
    {"Keeping it RL: ensemble", -58.68, {-3.62, -6.57, 0, -6.1, -10.32, 0, -11.9, -20.16, 0}},
    {"UoA: belief ensemble", -69.88, {-3.87, -6.54, 0, -6.74, -12.01, 0, -14.63, -26.09, 0}},
    {"Keeping it RL: plain PPO",
     -73.98,
     {-4.76, -8.03, 0, -8.13, -12.91, 0, -17.19, -22.94, -0.01}},
    {"CCS RL benchmark: PPO",
     -95.47,
     {-8.75, -7.31, -0.01, -14.92, -12.04, -0.01, -30.19, -22.21, -0.03}},
    {"ACME IMPALA", -122.91, {-6, -9.27, -0.12, -10.25, -22.27, -0.16, -19.72, -54.79, -0.33}},
    {"random blue",
     -2015.61,
     {-154.06, -33.43, -2.8, -347.1, -171.49, -4.45, -726.92, -566.41, -8.94}},
    {"sleeping blue", -3112.2, {-218.65, -39.31, 0, -480.17, -267.6, 0, -1134.03, -972.43, 0}}};

// Of episodes that cost so many tenths.
Score score_of(const std::vector<int32_t>& costs) {
  const auto n = static_cast<double>(costs.size());
  double mean = 0, square = 0;
  for (const int32_t cost : costs) mean += -cost / 10.0 / n;
  for (const int32_t cost : costs) square += (-cost / 10.0 - mean) * (-cost / 10.0 - mean);
  return {.mean = mean, .error = n > 1 ? std::sqrt(square / (n - 1) / n) : 0};
}

// One setting: `config` says which attacker.
Score play(const Defender& defender, const Config& config, int length,
           const LeaderboardOptions& options, int setting) {
  EvalOptions eval;
  eval.episodes = options.episodes;
  eval.seed = options.seed;
  eval.first_env = setting * options.episodes;
  eval.one_each = true;
  eval.vec.time_limit = length;
  Evaluator evaluator(defender.type, config, eval);
  std::vector<int32_t> costs(static_cast<size_t>(options.episodes));
  evaluator.set_episode_observer(episode_observer<Cage2>(
      [&](int episode, const State& s) { costs[static_cast<size_t>(episode)] = s.cost; }));
  evaluator.play(*defender.policy, true);
  return score_of(costs);
}

// Student's, for 95 % on both sides.
double quantile_of(size_t count) {
  constexpr std::array<double, 9> kFew = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
  const size_t freedom = count - 1;
  if (freedom <= kFew.size()) return kFew[freedom - 1];
  return 1.96 + 2.5 / static_cast<double>(freedom);  // within 0.02
}

Score mean_of(std::span<const Score> scores) {
  const auto n = static_cast<double>(scores.size());
  double mean = 0, square = 0;
  for (const Score& each : scores) mean += each.mean / n;
  for (const Score& each : scores) square += (each.mean - mean) * (each.mean - mean);
  return {.mean = mean,
          .error = std::sqrt(square / (n - 1) / n),
          .quantile = quantile_of(scores.size())};
}

std::string whose(const Leaderboard& board) {
  return board.policies == 1 ? "this policy" : fmt::format("mean of {} policies", board.policies);
}

using TextRow = std::vector<std::string>;

TextRow row_of(const std::string& name, double total,
               const std::array<double, kSettings>& settings) {
  TextRow row = {name, fmt::format("{:.2f}", total)};
  for (const double each : settings) row.push_back(fmt::format("{:.2f}", each));
  return row;
}

// Its means, and below them half of their intervals.
void add_rows(const Leaderboard& board, std::vector<TextRow>& rows) {
  std::array<double, kSettings> means{}, intervals{};
  for (size_t i = 0; i < kSettings; ++i) {
    means[i] = board.settings[i].mean;
    intervals[i] = board.settings[i].ci95();
  }
  const std::string version = board.legacy ? "legacy" : "head";
  rows.push_back(
      row_of(fmt::format("* {} (version {})", whose(board), version), board.total.mean, means));
  rows.push_back(row_of("  +- (95 %)", board.total.ci95(), intervals));
}

}  // namespace

const char* const kSettingNames[kSettings] = {"b30", "m30",  "s30",  "b50", "m50",
                                              "s50", "b100", "m100", "s100"};

Leaderboard play_leaderboard(const PolicyFile& file, const LeaderboardOptions& options) {
  const Defender defender = defender_of(file);
  Config config = defender.config;
  config.set("version", options.legacy ? "legacy" : "head");
  config.set("green", "false");
  config.set("alignment", "none");
  Leaderboard board{.legacy = options.legacy, .settings = {}, .total = {}};
  for (int i = 0; i < kSettings; ++i) {
    config.set("red", kReds[static_cast<size_t>(i % 3)]);
    const int length = kLengths[static_cast<size_t>(i / 3)];
    board.settings.push_back(play(defender, config, length, options, i));
    board.total.mean += board.settings.back().mean;
    board.total.error = std::hypot(board.total.error, board.settings.back().error);
  }
  return board;
}

Leaderboard mean_of(std::span<const Leaderboard> boards) {
  Leaderboard mean{.legacy = boards.front().legacy,
                   .policies = static_cast<int>(boards.size()),
                   .settings = {},
                   .total = {}};
  std::vector<Score> scores;
  for (size_t i = 0; i < kSettings; ++i) {
    scores.clear();
    for (const Leaderboard& board : boards) scores.push_back(board.settings[i]);
    mean.settings.push_back(mean_of(scores));
  }
  scores.clear();
  for (const Leaderboard& board : boards) scores.push_back(board.total);
  mean.total = mean_of(scores);
  return mean;
}

std::string leaderboard_text(std::span<const Leaderboard> ours, int episodes, size_t width) {
  std::vector<const Leaderboard*> left;
  for (const Leaderboard& board : ours) left.push_back(&board);
  std::ranges::sort(left, {}, [](const Leaderboard* board) { return board->total.mean; });
  std::vector<TextRow> rows = {{"agent", "total"}};
  rows[0].insert(rows[0].end(), std::begin(kSettingNames), std::end(kSettingNames));
  const auto add_better_than = [&](double total) {
    for (; !left.empty() && left.back()->total.mean > total; left.pop_back()) {
      add_rows(*left.back(), rows);
    }
  };
  for (const Published& each : kPublished) {
    add_better_than(each.total);
    rows.push_back(row_of(each.name, each.total, each.settings));
  }
  add_better_than(-std::numeric_limits<double>::infinity());
  std::string text = text_table(rows, width) + "\n";
  for (const Leaderboard& board : ours) {
    text +=
        fmt::format("version {}: total {:.2f} +- {:.2f} (95 %), {} episodes of each setting{}\n",
                    board.legacy ? "legacy" : "head", board.total.mean, board.total.ci95(),
                    episodes, board.legacy ? "" : "; only legacy compares with the others");
  }
  return text;
}

}  // namespace flotilla::cage2
