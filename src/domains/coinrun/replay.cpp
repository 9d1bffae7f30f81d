#include "flotilla/domains/coinrun/replay.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <cstring>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/coinrun/level.h"

namespace flotilla::coinrun {
namespace {

constexpr size_t kLargestActions = size_t{1} << 20;

class Checksum {
 public:
  Checksum& add(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(bits >> shift));
    return *this;
  }
  Checksum& add(uint8_t byte) {
    crc_ = crc32(crc_, &byte, 1);
    return *this;
  }
  uint32_t value() const { return static_cast<uint32_t>(crc_); }

 private:
  uLong crc_ = crc32(0, nullptr, 0);
};

const char* end_of(const State& state, const StepResult& result) {
  if (result.reached) return "goal";
  if (result.died) return "death";
  return state.steps == kMostSteps ? "timeout" : "cut";
}

}  // namespace

Replay replay(int32_t level_seed, Mode mode, const std::vector<int>& actions, const Look& look,
              const LookAfter& look_after) {
  State state;
  begin_episode(state, level_seed, mode);
  Replay episode;
  episode.goal = {state.level.goal_column, state.level.goal_row};
  episode.crc_grid = crc_of_grid(state.level);
  Checksum outcomes, places;
  for (const int action : actions) {
    if (episode.ended()) break;
    if (look) look(state);
    places.add(state.x).add(state.y);
    const StepResult result = step(state, action);
    ++episode.length;
    episode.end = end_of(state, result);
    const float reward = result.reached ? kReward : 0.0F;
    if (reward != 0) episode.rewards.emplace_back(episode.length, reward);
    episode.total += static_cast<double>(reward);
    outcomes.add(reward).add(static_cast<uint8_t>(episode.ended()));
    if (look_after) look_after(state, action, result, episode.ended());
  }
  if (look && !episode.ended()) look(state);
  episode.crc_rd = outcomes.value();
  episode.crc_xy = places.value();
  return episode;
}

std::vector<int> parse_actions(std::string_view text, const std::string& origin) {
  std::vector<int> actions;
  int line = 1;
  for (const char letter : text) {
    if (letter == '\n') ++line;
    if (letter == '\n' || letter == '\r' || letter == ' ' || letter == '\t') continue;
    if (letter >= '0' && letter <= '9') {
      actions.push_back(letter - '0');
    } else if (letter >= 'a' && letter <= 'e') {
      actions.push_back(letter - 'a' + 10);
    } else {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: line {}: expected actions as hexadecimal digits from 0 to e, "
                              "got {}",
                              origin, line, in_quotes(std::string_view(&letter, 1))));
    }
  }
  return actions;
}

std::vector<int> read_actions(const std::string& path) {
  return parse_actions(read_whole_file(path, kLargestActions), path);
}

uint32_t crc_of_grid(const Level& level) {
  const std::string text = grid_text(level);
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

std::string crc_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

}  // namespace flotilla::coinrun
