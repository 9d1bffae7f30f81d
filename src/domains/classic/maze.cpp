#include "flotilla/domains/classic/maze.h"

#include <limits>

#include "flotilla/core/rng.h"

namespace flotilla::classic {
namespace {

constexpr int kSize = 30;
constexpr double kWallChance = 0.15;

// Whether a walk from the start reaches the centre of every checkpoint.
bool all_reachable(const GridMap& map) {
  std::vector<uint8_t> seen = map.walls;
  std::vector<int> frontier;
  const auto visit = [&](int row, int col) {
    if (row < 0 || row >= kSize || col < 0 || col >= kSize) return;
    const int cell = row * kSize + col;
    if (seen[cell] != 0) return;
    seen[cell] = 1;
    frontier.push_back(cell);
  };
  visit(map.start_row, map.start_col);
  while (!frontier.empty()) {
    const int row = frontier.back() / kSize;
    const int col = frontier.back() % kSize;
    frontier.pop_back();
    visit(row - 1, col);
    visit(row + 1, col);
    visit(row, col - 1);
    visit(row, col + 1);
  }
  for (const GridTarget& target : map.targets) {
    // Centres are never walls, so seen means reached.
    if (seen[target.centre_row * kSize + target.centre_col] == 0) return false;
  }
  return true;
}

GridMap draw_map(uint64_t layout_seed) {
  GridMap map{.size = kSize,
              .start_row = 15,
              .start_col = 15,
              .targets = {{{2, 5, 2, 5, 3, 3},
                           {24, 27, 24, 27, 25, 25},
                           {2, 5, 24, 27, 3, 25},
                           {24, 27, 2, 5, 25, 3}}}};
  map.walls.resize(kSize * kSize);
  // The highest index of its purpose, which no env has: a layout never repeats an env's numbers.
  Rng g(layout_seed, stream_of(Purpose::kEnv, (uint64_t{1} << 48) - 1));
  do {
    for (uint8_t& wall : map.walls) wall = g.chance(kWallChance);
    map.walls[map.start_row * kSize + map.start_col] = 0;
    for (const GridTarget& target : map.targets) {
      for (int row = target.row_low; row <= target.row_high; ++row) {
        for (int col = target.col_low; col <= target.col_high; ++col) {
          map.walls[row * kSize + col] = 0;
        }
      }
    }
  } while (!all_reachable(map));
  return map;
}

}  // namespace

Schema Maze::schema() {
  Schema schema = grid_schema(1500);
  schema.integer("layout_seed", 0, {0, std::numeric_limits<int64_t>::max()},
                 "the maze all envs share: equal seeds draw equal walls");
  return schema;
}

Maze::Maze(const Config& config)
    : GridWorld("maze", draw_map(static_cast<uint64_t>(config.get_integer("layout_seed"))),
                config) {}

}  // namespace flotilla::classic
