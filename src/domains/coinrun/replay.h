// An episode with given actions, and its checksums as the recordings have them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flotilla/domains/coinrun/dynamics.h"
#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

struct Replay {
  int length = 0;           // actions that were taken
  std::string end = "cut";  // goal, death, timeout; cut: there were no more actions
  double total = 0;         // of the rewards
  std::vector<std::pair<int, float>> rewards;  // those that are not 0, by the number of the action
  uint32_t crc_rd = 0;                         // over rewards and end flags
  uint32_t crc_xy = 0;                         // over the agent's places before each action
  uint32_t crc_grid = 0;
  std::pair<int, int> goal;  // column and row of the coin

  bool ended() const { return end != "cut"; }
};

// Looks at a state before the action that follows it.
using Look = std::function<void(const State& state)>;
// Looks at what an action led to.
using LookAfter =
    std::function<void(const State& state, int action, const StepResult& result, bool ended)>;

// Plays until the episode or the actions end.
Replay replay(int32_t level_seed, Mode mode, const std::vector<int>& actions, const Look& look = {},
              const LookAfter& look_after = {});

// One hexadecimal digit from 0 to e for every action; white space is passed over. Throws
// Error(kData) that names the origin and the line.
std::vector<int> parse_actions(std::string_view text, const std::string& origin);
std::vector<int> read_actions(const std::string& path);

uint32_t crc_of_grid(const Level& level);
std::string crc_text(uint32_t crc);  // eight hexadecimal digits

}  // namespace flotilla::coinrun
