#include "flotilla/domains/coinrun/level.h"

#include <algorithm>

namespace flotilla::coinrun {
namespace {

constexpr int kMostRise = 5, kWidestPit = 7, kLongestSection = 15;
constexpr float kEnemySpeed = 0.15F;

enum class Danger : uint8_t { kLava, kSaws, kEnemies };

class Builder {
 public:
  Builder(State& state, int32_t seed, Mode mode)
      : state_(state),
        level_(state.level),
        easy_(mode == Mode::kEasy),
        generator_(static_cast<uint32_t>(seed)) {
    level_.seed = seed;
  }

  std::mt19937 build() {
    draw_looks();
    build_frame();
    const int difficulty = draw(3) + 1;
    const int sections = draw(difficulty) + difficulty;
    const auto danger = static_cast<Danger>(draw(3));
    for (int i = 0; i < sections && column_ + kLongestSection < kSide; ++i) {
      build_section(difficulty, danger);
    }
    build_goal();
    return generator_;
  }

 private:
  int draw(int below) { return static_cast<int>(generator_() % static_cast<uint32_t>(below)); }
  float draw_unit() { return static_cast<float>(generator_() / 4294967296.0); }

  void draw_looks() {
    level_.background_x = draw_unit();
    const int background = draw(kBackgrounds);
    generator_.discard(2);  // a start position that the game does not use
    if (easy_) return;
    level_.background = static_cast<uint8_t>(background);
    level_.agent_theme = static_cast<uint8_t>(draw(kAgentThemes));
    level_.wall_theme = static_cast<uint8_t>(draw(kWallThemes));
  }

  void set(int column, int row, Cell cell) { level_.grid.set(column, row, cell); }

  void build_frame() {
    level_.grid.fill(Cell::kWallBody);
    for (int row = 0; row <= kBuiltRows; ++row) {
      const Cell cell = row == 0 ? Cell::kWallTop : Cell::kSpace;
      for (int column = 1; column < kSide - 1; ++column) set(column, row, cell);
    }
  }

  // Columns [from, from + width) up to `height`, the highest row with another look.
  void build_ground(int from, int width, int height) {
    for (int column = from; column < from + width; ++column) {
      for (int row = 0; row < height - 1; ++row) set(column, row, Cell::kWallBody);
      set(column, height - 1, Cell::kWallTop);
    }
  }

  void add_fixture(Fixture::Kind kind, int column, int row, int look) {
    level_.fixtures[level_.fixture_count++] = {.kind = kind,
                                               .column = static_cast<uint8_t>(column),
                                               .row = static_cast<uint8_t>(row),
                                               .look = static_cast<uint8_t>(look)};
  }
  void add_saw(int column, int row) { add_fixture(Fixture::Kind::kSaw, column, row, 0); }

  void add_enemy(int column, int row) {
    Enemy& enemy = state_.enemies[state_.enemy_count++];
    enemy.vx = draw(2) == 1 ? kEnemySpeed : -kEnemySpeed;
    enemy.look = static_cast<uint8_t>(draw(kEnemyLooks));
    enemy.x = static_cast<float>(column) + kHalf;
    enemy.row = static_cast<uint8_t>(row);
  }

  void build_section(int difficulty, Danger danger) {
    int rise = std::min(draw(4) + 1 + difficulty / 3, kMostRise);
    if (row_ >= 20 || (row_ >= 5 && draw(2) == 1)) rise = -rise;
    const int length = draw(2 * difficulty) + 3 + difficulty / 3;
    row_ = std::max(1, row_ + rise);
    const bool pit = length > kWidestPit && row_ > 3 && draw(20) >= difficulty;
    if (pit) {
      build_pit(length, danger);
    } else {
      build_walk(length, difficulty);
    }
    if (!is_wall(level_.at(column_ - 1, row_))) set(column_ - 1, row_, Cell::kBarrier);
    column_ += length;
    set(column_, row_, Cell::kBarrier);
  }

  void build_pit(int length, Danger danger) {
    const int before = draw(3) + 1;
    int after = draw(3) + 1;
    const int width = std::min(length - before - after, kWidestPit);
    after = length - before - width;
    build_ground(column_, before, row_);
    build_ground(column_ + length - after, after, row_);
    fill_pit(column_ + before, width, draw(row_ - 3) + 1, danger);
    if (width > 4) build_platform(column_ + before, width);
  }

  void fill_pit(int from, int width, int lava_height, Danger danger) {
    for (int column = from; column < from + width; ++column) {
      switch (danger) {
        case Danger::kLava:
          for (int row = 1; row < lava_height; ++row) set(column, row, Cell::kLavaBody);
          set(column, lava_height, Cell::kLavaTop);
          break;
        case Danger::kSaws:
          add_saw(column, 1);
          break;
        case Danger::kEnemies:
          add_enemy(column, 1);
          break;
      }
    }
  }

  // To step on halfway.
  void build_platform(int from, int width) {
    const int before = (width == 5 ? 1 : 2) + draw(2);
    const int length = width == 7 ? width - before - (2 + draw(2)) : 1 + draw(2);
    for (int i = 0; i < length; ++i) set(from + before + i, row_ - 1, Cell::kWallTop);
  }

  void build_walk(int length, int difficulty) {
    constexpr int kNowhere = -1;
    build_ground(column_, length, row_);
    const auto place = [&] { return column_ + draw(length - 2) + 1; };
    int saw = kNowhere, enemy = kNowhere;
    if (draw(10) < 2 * difficulty && length > 3) add_saw(saw = place(), row_);
    if (draw(10) < difficulty && length > 3 && !easy_) add_enemy(enemy = place(), row_);
    for (int pile = 0; pile < 2; ++pile) {
      const int column = place();
      if (draw(2) == 1 && column != saw && column != enemy) build_pile(column);
    }
  }

  void build_pile(int column) {
    const int crates = draw(3) + 1;
    for (int i = 0; i < crates; ++i) {
      add_fixture(Fixture::Kind::kCrate, column, row_ + i, draw(kCrateLooks));
    }
  }

  void build_goal() {
    level_.goal_column = static_cast<uint8_t>(column_);
    level_.goal_row = static_cast<uint8_t>(row_);
    build_ground(column_, 1, row_);
    set(column_, row_, Cell::kGoal);
    for (int row = 0; row <= kBuiltRows; ++row) {
      for (int column = column_ + 1; column < kSide; ++column) set(column, row, Cell::kWallBody);
    }
  }

  State& state_;
  Level& level_;
  bool easy_;
  std::mt19937 generator_;
  int column_ = 5, row_ = 1;  // where the next section begins
};

void note_draws(std::mt19937 generator, Level& level) {
  for (size_t i = 0; i < kMostSteps; ++i) {
    level.odd_draws[i / 64] |= uint64_t{generator() & 1U} << (i % 64);
  }
}

}  // namespace

std::mt19937 begin_episode(State& state, int32_t level_seed, Mode mode) {
  state = State{};
  std::mt19937 generator = Builder(state, level_seed, mode).build();
  note_draws(generator, state.level);
  state.x = 1.5F;
  state.y = state.last_y = 1.0F + kAgentHalfHeight;
  return generator;
}

std::string grid_text(const Level& level) {
  std::string text;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      text += ".MTlLbG"[static_cast<size_t>(level.at(column, row))];
    }
  }
  return text;
}

}  // namespace flotilla::coinrun
