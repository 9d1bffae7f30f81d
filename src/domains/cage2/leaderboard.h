// The nine settings of the official leaderboard, played with one policy that is not told who
// attacks; and the table to compare with.
#pragma once

#include <string>
#include <vector>

#include "flotilla/nn/policy_file.h"

namespace flotilla::cage2 {

struct Score {
  double mean = 0, error = 0;  // standard error of the mean
};

// In the order of the table: B_line, Meander and Sleep for 30, 50 and 100 steps.
constexpr int kSettings = 9;
extern const char* const kSettingNames[kSettings];  // "b30", "m30", "s30", "b50", ...

struct Leaderboard {
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

// The published table with this row in its place, as text of at most `width` columns; 0: any.
std::string leaderboard_text(const Leaderboard& ours, const LeaderboardOptions& options,
                             size_t width = 0);

}  // namespace flotilla::cage2
