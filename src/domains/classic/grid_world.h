// What the grid worlds share: a walker on a square grid that has to visit four targets in the order
// its workflow asks for.
//
// Rules. Moves are 0 up (row - 1), 1 down, 2 left, 3 right; a move into the border or a wall leaves
// the walker where it is. A target is visited when the walker first enters any of its cells, and
// the sequence of these first visits decides everything:
//   - the n-th first visit is in order if it is the n-th target of the order. A target visited at
//     another place of the sequence can no longer score.
//   - reward "order" pays n for an n-th visit in order, so a wrong visit costs its own place only.
//   - adherence is the length of the correct prefix of the sequence, over 4: after the first wrong
//     visit it cannot grow. Reward "shaped" pays 100 times its increase.
//   - canonical_return is the return that reward "order" would have paid for the order 0,1,2,3,
//     whatever the configured order: what a search over orders is judged by.
// Every step costs 0.01. The episode ends when all four targets were visited.
//
// Observation, 22 numbers in [0, 1]: row and column; row and column of the centre of each target,
// all over size - 1; a flag per target, visited; one-hot of the next required target, the one the
// correct prefix waits for; for each target its place in the order, (rank + 1) / 4. Together with
// the flags the one-hot tells whether the prefix is still intact, which the flags alone do not.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/domains/classic/choice.h"
#include "flotilla/env/env.h"

namespace flotilla::classic {

struct GridTarget {
  int row_low, row_high, col_low, col_high;  // inclusive
  int centre_row, centre_col;
};

struct GridMap {
  int size;
  int start_row, start_col;
  std::array<GridTarget, 4> targets;
  std::vector<uint8_t> walls = {};  // one per cell in row-major order, 1: wall; empty: none
};

class GridWorld {
 public:
  static constexpr int kTargets = 4;
  static constexpr int kMaxSize = 30;
  static constexpr double kStepCost = 0.01;
  static constexpr int kObsSize = 22;

  struct State {
    int32_t steps;
    uint8_t row, col;
    uint8_t visits;                  // targets visited
    uint8_t prefix;                  // how many of the first visits were in order without a break
    uint8_t first_visits[kTargets];  // the targets in the order of their first visits
  };

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng&) const {
    s = State{};
    s.row = start_row_;
    s.col = start_col_;
  }

  Outcome step(State& s, ActionRow action, Rng&) const {
    constexpr int kRowStep[4] = {-1, 1, 0, 0};
    constexpr int kColStep[4] = {0, 0, -1, 1};
    const int choice = action.discrete();
    require_choice(choice, 4);
    const int row = s.row + kRowStep[choice];
    const int col = s.col + kColStep[choice];
    const int cell = cell_at(row, col);

    ++s.steps;
    Outcome outcome;
    outcome.reward = static_cast<float>(-kStepCost);
    if (cell == kWall) return outcome;
    s.row = static_cast<uint8_t>(row);
    s.col = static_cast<uint8_t>(col);
    if (cell == kFree || visited(s, cell)) return outcome;

    const bool in_order = cell == order_[s.visits];
    const bool extends = in_order && s.prefix == s.visits;
    s.first_visits[s.visits++] = static_cast<uint8_t>(cell);
    s.prefix += extends;
    const double paid = shaped_ ? (extends ? 100.0 / kTargets : 0) : (in_order ? s.visits : 0);
    outcome.reward = static_cast<float>(paid - kStepCost);
    outcome.terminated = s.visits == kTargets;
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    float* out = row.f32().data();
    for (int i = 0; i < kObsSize; ++i) out[i] = obs_template_[i];
    out[0] = static_cast<float>(s.row) / last_;
    out[1] = static_cast<float>(s.col) / last_;
    for (int i = 0; i < s.visits; ++i) out[10 + s.first_visits[i]] = 1;
    if (s.prefix < kTargets) out[14 + order_[s.prefix]] = 1;
  }

  // adherence, targets_visited, canonical_return
  void metrics(const State& s, MetricRow row) const {
    int points = 0;
    for (int i = 0; i < s.visits; ++i) {
      if (s.first_visits[i] == i) points += i + 1;
    }
    row[0] = static_cast<float>(s.prefix) / kTargets;
    row[1] = s.visits;
    row[2] = static_cast<float>(points - kStepCost * s.steps);
  }

  bool valid(const State& s) const {
    const bool on_grid = s.row <= last_ && s.col <= last_ && !is_wall(s.row, s.col);
    const bool visits_are_targets =
        std::ranges::all_of(s.first_visits, [](uint8_t target) { return target < kTargets; });
    return on_grid && visits_are_targets && s.steps >= 0 && s.visits < kTargets &&
           s.prefix <= s.visits;
  }

  bool is_wall(int row, int col) const { return cell_at(row, col) == kWall; }

  // The fewest steps that visit the targets in this order and none of them before its turn; -1
  // where walls allow no such walk.
  int shortest_walk(const std::array<int, kTargets>& order) const;
  // The canonical return of that walk, or of none.
  double best_canonical_return(const std::array<int, kTargets>& order) const;

 protected:
  GridWorld(std::string name, const GridMap& map, const Config& config);

  static Schema grid_schema(int time_limit);

 private:
  // A cell holds the index of the target it belongs to, or one of these.
  static constexpr int8_t kFree = -1, kWall = -2;
  // The grid lies inside a frame of walls, so that border and wall are one case.
  static constexpr int kPitch = kMaxSize + 2;
  static int index_of(int row, int col) { return (row + 1) * kPitch + col + 1; }

  int8_t& cell_at(int row, int col) { return cells_[index_of(row, col)]; }
  int cell_at(int row, int col) const { return cells_[index_of(row, col)]; }

  static bool visited(const State& s, int target) {
    for (int i = 0; i < s.visits; ++i) {
      if (s.first_visits[i] == target) return true;
    }
    return false;
  }

  EnvSpec spec_;
  std::array<int8_t, kPitch * kPitch> cells_;
  std::array<int, kTargets> order_;
  std::array<float, kObsSize> obs_template_{};  // the part that never changes, else 0
  float last_;                                  // the last row and column
  uint8_t start_row_, start_col_;
  bool shaped_;
};

}  // namespace flotilla::classic
