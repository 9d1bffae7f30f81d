// The nine settings of the official leaderboard, played with one policy that is not told who
// attacks; and the table to compare with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "flotilla/nn/policy_file.h"

namespace flotilla::cage2 {

struct Score {
  double mean = 0, error = 0;                       // standard error of the mean
  double quantile = 1.96;                           // of many; of few, Student's
  double ci95() const { return quantile * error; }  // half of the 95 % interval
};

// In the order of the table: B_line, Meander and Sleep for 30, 50 and 100 steps.
constexpr int kSettings = 9;
extern const char* const kSettingNames[kSettings];  // "b30", "m30", "s30", "b50", ...

struct Leaderboard {
  bool legacy = true;
  int policies = 1;  // that it is the mean of
  std::vector<Score> settings;
  Score total;
};

struct LeaderboardOptions {
  int episodes = 1000;  // of each setting
  bool legacy = true;
  uint64_t seed = 0;
};

// Plays with the likeliest actions. The policy's observations and actions are those of its file.
// Throws Error(kInterrupted).
Leaderboard play_leaderboard(const PolicyFile& file, const LeaderboardOptions& options);

// The mean of boards of several policies, such as those of one recipe with several seeds. Errors
// are those of a mean over policies, which differ by more than their episodes do. REQUIRES: at
// least two of one version.
Leaderboard mean_of(std::span<const Leaderboard> boards);

// The published table with these boards in their places, as text of at most `width`
// columns; 0: any.
std::string leaderboard_text(std::span<const Leaderboard> ours, int episodes, size_t width = 0);

}  // namespace flotilla::cage2
