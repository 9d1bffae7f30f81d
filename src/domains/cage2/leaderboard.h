// The nine settings of the official leaderboard, played with one policy that is not told who
// attacks; and the table to compare with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "flotilla/nn/policy_file.h"

namespace flotilla::cage2 {

struct Score {
  double mean = 0, error = 0;                   // standard error of the mean
  double ci95() const { return 1.96 * error; }  // half of the 95 % interval
};

// In the order of the table: B_line, Meander and Sleep for 30, 50 and 100 steps.
constexpr int kSettings = 9;
extern const char* const kSettingNames[kSettings];  // "b30", "m30", "s30", "b50", ...

struct Leaderboard {
  bool legacy = true;
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

// The published table with these boards of one policy in their places, as text of at most `width`
// columns; 0: any.
std::string leaderboard_text(std::span<const Leaderboard> ours, int episodes, size_t width = 0);

}  // namespace flotilla::cage2
