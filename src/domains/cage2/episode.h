// One episode of a trained defender, step by step: what both sides did, what red holds, what it
// cost. For pictures (episode_figure.h). Stepped here: an Evaluator shows how episodes end, not
// their steps.
//
// Determinism: the same policy and options give the same episode.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/domains/cage2/red_agents.h"
#include "flotilla/domains/cage2/state.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla::cage2 {

enum class Access : uint8_t { kNone, kUser, kPrivileged };
Access access_of(const HostState& host);

struct EpisodeStep {
  int blue = kSleep;  // one of the 145
  RedMove red;
  Success red_result = Success::kUnknown;  // as red was told
  std::array<Access, kHosts> access{};     // red's, after the step
  bool ot_running = true;                  // after the step
  double reward = 0;                       // of the challenge: without a share for compliance
  double total = 0;                        // of the episode so far
};

struct Episode {
  RedAgent red = RedAgent::kSleep;
  uint64_t seed = 0;
  std::vector<EpisodeStep> steps;
  double total() const { return steps.empty() ? 0 : steps.back().total; }
};

constexpr int kMostEpisodeSteps = 10'000;

struct EpisodeOptions {
  uint64_t seed = 0;
  std::string red = {};      // "bline", "meander", "sleep" or "mix"; empty: as in training
  std::optional<int> steps;  // default: the time limit of training
};

// Plays with the likeliest actions, in the environment the policy was trained in.
// REQUIRES: steps from 1 to kMostEpisodeSteps.
Episode play_episode(const PolicyFile& file, const EpisodeOptions& options);

const char* name_of(RedAgent red);  // "B_line"
// "B_line, seed 7, 100 steps: reward -12.3"
std::string summary(const Episode& episode);

}  // namespace flotilla::cage2
