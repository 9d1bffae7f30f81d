// What a game of CoinRun is made of: the level, the agent and the enemies, as one plain value.
//
// Coordinates: x to the right, y up, one cell is 1. A cell (x, y) covers [x, x + 1) x [y, y + 1).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace flotilla::coinrun {

// The largest whole number that is not above it; std::floor is a call.
inline int floored(float value) {
  const int whole = static_cast<int>(value);
  return whole - static_cast<int>(value < static_cast<float>(whole));
}

enum class Mode : uint8_t { kEasy, kHard };

enum class Cell : uint8_t { kSpace, kWallBody, kWallTop, kLavaBody, kLavaTop, kBarrier, kGoal };
constexpr int kCellKinds = 7;

constexpr bool is_wall(Cell cell) { return cell == Cell::kWallBody || cell == Cell::kWallTop; }
constexpr bool is_lava(Cell cell) { return cell == Cell::kLavaBody || cell == Cell::kLavaTop; }

constexpr int kSide = 64;         // of the world, in cells
constexpr int kBuiltRows = 26;    // nothing is built higher: there is space between walls
constexpr int kMostSteps = 1000;  // of an episode
constexpr int kActions = 15;

// A level has at most five sections: of a pit with seven hazards, or of a saw, an enemy and two
// piles of three crates.
constexpr int kMostFixtures = 40;
constexpr int kMostEnemies = 35;

constexpr int kAgentThemes = 5, kWallThemes = 6, kBackgrounds = 62, kEnemyLooks = 9,
              kCrateLooks = 4;

constexpr float kHalf = 0.5F;  // half the width and height of everything but the agent,
constexpr float kAgentHalfHeight = 0.5787F;  // and of the agent

// What stays where it is.
struct Fixture {
  enum class Kind : uint8_t { kSaw, kCrate };
  Kind kind;
  uint8_t column, row;
  uint8_t look;

  float x() const { return static_cast<float>(column) + kHalf; }
  float y() const { return static_cast<float>(row) + kHalf; }
};

// The cells of a level. Above the rows that are built all are alike, and so are those below the
// world and at its upper edge: each kind is kept once. Between the rows there is as much wall as a
// picture may show beyond the sides of the world.
class Grid {
 public:
  static constexpr int kBeyond = 16;

  // Outside of the world there is wall.
  Cell at(int column, int row) const {
    if (static_cast<unsigned>(column) >= kSide) return Cell::kWallBody;
    return *from(column, row);
  }
  // The cells from one on to the right, for drawing; of those beyond the sides kBeyond are there.
  // REQUIRES: -kBeyond <= column <= kSide.
  const Cell* from(int column, int row) const {
    const bool outside = row < 0 || row >= kSide - 1;
    const int kept = outside ? kRock : row < kBuiltRows ? row : kSky;
    return cells_.data() + place(column, kept);
  }

  // REQUIRES: 0 <= column < kSide and 0 <= row <= kBuiltRows, which is the sky.
  void set(int column, int row, Cell cell) { cells_[place(column, row)] = cell; }
  void fill(Cell cell) { cells_.fill(cell); }

  bool valid() const {
    return std::ranges::all_of(cells_, [](Cell c) { return static_cast<int>(c) < kCellKinds; });
  }

 private:
  static constexpr int kSky = kBuiltRows, kRock = kBuiltRows + 1, kKept = kBuiltRows + 2;
  static constexpr int kStride = kSide + kBeyond;

  static size_t place(int column, int row) {
    return static_cast<size_t>(kBeyond + row * kStride + column);
  }

  std::array<Cell, kBeyond + kKept * kStride> cells_;
};

struct Level {
  int32_t seed;
  float background_x;  // where the background picture begins, as a part of its width
  uint8_t background, agent_theme, wall_theme;
  uint8_t goal_column, goal_row;
  uint8_t fixture_count;
  std::array<Fixture, kMostFixtures> fixtures;  // in order of creation
  Grid grid;
  // Whether the random number of a step is odd, step by step: all that the rules use of it.
  std::array<uint64_t, (kMostSteps + 63) / 64> odd_draws;

  Cell at(int column, int row) const { return grid.at(column, row); }
};

constexpr int kTrail = 8;  // past places of an enemy that are shown

// It never leaves its row.
struct Enemy {
  float x, vx, vy;
  std::array<float, kTrail> trail;  // x after step t at t % kTrail
  uint8_t row, look;

  float y() const { return static_cast<float>(row) + kHalf; }
};

struct State {
  Level level;
  float x, y, vx, vy;
  float last_y;  // after the step before
  uint16_t steps;
  int8_t push;        // the last action: -1 left, 1 right
  uint8_t on_crate;   // stands on one, after the last step
  uint8_t supported;  // stood on something at the beginning of the last step
  uint8_t faces_left;
  uint8_t complete;  // has the coin
  uint8_t enemy_count;
  std::array<Enemy, kMostEnemies> enemies;  // in order of creation
};

}  // namespace flotilla::coinrun
