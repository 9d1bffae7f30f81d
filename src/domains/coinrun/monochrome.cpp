#include "flotilla/domains/coinrun/monochrome.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "flotilla/domains/coinrun/poses.h"

namespace flotilla::coinrun {
namespace {

// Numbers of the library that colours are made of.
enum Kind : uint8_t {
  kAgent = 0,
  kGoal = 1,
  kSaw = 2,
  kEnemy = 6,
  kWalkingAgent = 12,
  kWallBody = 15,
  kWallTop = 16,
  kLavaBody = 17,
  kLavaTop = 18,
  kCrate = 20,
  kTrailMark = 59
};

constexpr Rgb colour_of(int kind, int theme) {
  const int v = (29 * (kind + 1) + 19 * theme) % 64;
  const auto level = [](int quarter) { return static_cast<uint8_t>(64 * (quarter + 1) - 1); };
  return {level(v / 16), level(v / 4 % 4), level(v % 4)};
}

constexpr float kCellMargin = 0.02F;             // by which cells are drawn larger on every side
constexpr float kFarthest = kViewCells / 2 + 2;  // from the agent: beyond it nothing is seen
using Strip = std::array<Cell, Grid::kBeyond>;   // cells side by side
static_assert(kMostCells <= Grid::kBeyond);
constexpr int kBrush = 24;  // bytes: more than a cell is wide

struct Interval {
  int from = 0, to = 0;
};

int rounded(double value) {
  const double shifted = value + 0.5;
  const int whole = static_cast<int>(shifted);
  return whole - static_cast<int>(shifted < whole);
}

Interval pixels(float from, float length) {
  return {rounded(from), rounded(double{from} + double{length})};
}

// A colour, several times: cells are painted by copying the whole brush; what is too much is
// painted over by the next cell.
using Brush = std::array<uint8_t, kBrush>;

Brush brush_of(Rgb colour) {
  Brush brush;
  for (size_t i = 0; i < kBrush; i += 3) {
    brush[i] = colour.r;
    brush[i + 1] = colour.g;
    brush[i + 2] = colour.b;
  }
  return brush;
}

class PlainCanvas {
 public:
  PlainCanvas(const State& state, ViewSpan view)
      : s_(state),
        view_(view.data()),
        left_(kPixelsPerCell * (state.x - kViewCells / 2.0F)),
        low_(kPixelsPerCell * (state.y - kViewCells / 2.0F)),
        first_column_(floored(state.x - kViewCells / 2.0F) - 1),
        first_row_(floored(state.y - kViewCells / 2.0F) - 1) {}

  // Neighbours overlap by a pixel now and then. The library paints column by column, in each
  // upwards, so of two cells the right one is on top, and of two in a column the upper one. Pixel
  // rows that meet the same rows of cells are equal: each kind of them is drawn once.
  void draw_cells() {
    choose_brushes();
    for (int i = 0; i < kMostCells; ++i) {
      columns_[static_cast<size_t>(i)] =
          across(static_cast<float>(first_column_ + i), 1, kCellMargin);
    }
    int row = first_row_ + kMostCells;  // from the top of the view down
    Strip cells = cells_of(row);
    Interval lines = lines_of(row);
    for (int next = 0; next < kView; --row) {
      const Strip below = cells_of(row - 1);
      const Interval lines_below = lines_of(row - 1);
      next = repeat(cells, next, std::min(lines_below.from, kView));
      if (next < lines.to) next = repeat(on_top(cells, below), next, std::min(lines.to, kView));
      cells = below;
      lines = lines_below;
    }
  }

  bool shows(float x, float y) const {
    return std::fabs(x - s_.x) < kFarthest && std::fabs(y - s_.y) < kFarthest;
  }

  void fill(const Thing& thing) {
    if (!shows(thing.x, thing.y)) return;
    const Rgb colour = colour_of(thing.kind, thing.theme);
    const Interval columns = across(thing.x - thing.half_width, 2 * thing.half_width, 0);
    const Interval rows = down(thing.y + thing.half_height, 2 * thing.half_height, 0);
    const int from = std::max(columns.from, 0), to = std::min(columns.to, kView);
    for (int row = std::max(rows.from, 0); row < std::min(rows.to, kView); ++row) {
      uint8_t* at = view_ + static_cast<size_t>(row) * kRowBytes + 3 * from;
      for (int column = from; column < to; ++column, at += 3) {
        at[0] = colour.r;
        at[1] = colour.g;
        at[2] = colour.b;
      }
    }
  }

 private:
  Interval across(float from, float width, float margin) const {
    return pixels((from - margin) * kPixelsPerCell - left_, (width + 2 * margin) * kPixelsPerCell);
  }
  Interval down(float top, float height, float margin) const {
    return pixels((kViewCells - top - margin) * kPixelsPerCell + low_,
                  (height + 2 * margin) * kPixelsPerCell);
  }

  void choose_brushes() {
    const auto set = [this](Cell cell, Kind kind, int theme) {
      brushes_[static_cast<size_t>(cell)] = brush_of(colour_of(kind, theme));
    };
    set(Cell::kWallBody, kWallBody, s_.level.wall_theme);
    set(Cell::kWallTop, kWallTop, s_.level.wall_theme);
    set(Cell::kLavaBody, kLavaBody, 0);
    set(Cell::kLavaTop, kLavaTop, 0);
    set(Cell::kGoal, kGoal, 0);
  }

  Strip cells_of(int row) const {
    Strip cells;
    const int first = std::clamp(first_column_, -Grid::kBeyond, kSide);
    std::memcpy(cells.data(), s_.level.grid.from(first, row), cells.size());
    return cells;
  }

  static bool is_drawn(Cell cell) { return cell != Cell::kSpace && cell != Cell::kBarrier; }

  static Strip on_top(const Strip& upper, Strip lower) {
    for (size_t i = 0; i < lower.size(); ++i) {
      if (is_drawn(upper[i])) lower[i] = upper[i];
    }
    return lower;
  }

  Interval lines_of(int row) const { return down(static_cast<float>(row + 1), 1, kCellMargin); }

  // Draws the pixel rows [from, to) and returns where the next ones begin.
  int repeat(const Strip& cells, int from, int to) {
    if (from >= to) return from;
    if (cells != drawn_) draw_line(cells);
    for (int row = from; row < to; ++row) {
      std::memcpy(view_ + static_cast<size_t>(row) * kRowBytes, line_.data() + kMargin, kRowBytes);
    }
    return to;
  }

  void draw_line(const Strip& cells) {
    int end = 0;  // of the cell before, if it is drawn
    for (size_t i = 0; i < kMostCells; ++i) {
      const Interval& column = columns_[i];
      const bool drawn = is_drawn(cells[i]);
      const int begin = drawn ? column.from : std::max(column.from, end);
      end = drawn ? column.to : column.from;
      const int at = std::clamp(3 * begin + kMargin, 0, static_cast<int>(line_.size()) - kBrush);
      std::memcpy(line_.data() + at, brushes_[static_cast<size_t>(cells[i])].data(), kBrush);
    }
    drawn_ = cells;
  }

  static constexpr int kMargin = 2 * kBrush;  // of a line on both sides

  const State& s_;
  uint8_t* view_;
  float left_, low_;  // of the view in pixels of the world
  int first_column_, first_row_;
  std::array<Brush, kCellKinds> brushes_{};
  std::array<Interval, kMostCells> columns_{};
  std::array<uint8_t, kMargin + kRowBytes + kMargin> line_{};  // a pixel row
  Strip drawn_{};                                              // the cells on it: none, it is black
};

int agent_kind(const State& s) {
  const Pose pose = agent_pose(s);
  if (pose == Pose::kStanding) return kAgent;
  return pose == Pose::kWalking1 ? kWalkingAgent : kWalkingAgent + 1;
}

// What the things are drawn on when only their list is wanted.
struct ThingList {
  bool shows(float, float) const { return true; }
  void fill(const Thing& thing) { things.push_back(thing); }

  std::vector<Thing> things;
};

template <class Canvas>
void draw_fixtures(const State& s, Canvas& canvas) {
  const int saw = kSaw + (second_saw(s) ? 1 : 0);
  for (size_t i = 0; i < s.level.fixture_count; ++i) {
    const Fixture& fixture = s.level.fixtures[i];
    const bool is_saw = fixture.kind == Fixture::Kind::kSaw;
    canvas.fill(
        {is_saw ? saw : kCrate, is_saw ? 0 : fixture.look, fixture.x(), fixture.y(), kHalf, kHalf});
  }
}

template <class Canvas>
void draw_trails(const State& s, Canvas& canvas) {
  for_trails(s, [&](int age, float x, const Enemy& enemy) {
    if (!canvas.shows(x, enemy.y())) return;
    const TrailSize& size = kTrailSizes[static_cast<size_t>(age)];
    canvas.fill({kTrailMark, 0, x, trail_y(enemy.y(), age), size.half_width, size.half_height});
  });
}

template <class Canvas>
void draw_movers(const State& s, Canvas& canvas) {
  canvas.fill({agent_kind(s), s.level.agent_theme, s.x, s.y, kHalf, kAgentHalfHeight});
  const int kind = kEnemy + (second_frame(s) ? 1 : 0);
  for (size_t i = 0; i < s.enemy_count; ++i) {
    const Enemy& enemy = s.enemies[i];
    canvas.fill({kind, enemy.look, enemy.x, enemy.y(), kHalf, kHalf});
  }
}

template <class Canvas>
void draw_things(const State& s, Canvas& canvas) {
  draw_fixtures(s, canvas);
  draw_trails(s, canvas);
  draw_movers(s, canvas);
}

}  // namespace

void draw_monochrome(const State& state, ViewSpan view) {
  PlainCanvas canvas(state, view);
  canvas.draw_cells();
  draw_things(state, canvas);
}

std::vector<Thing> things_over_cells(const State& state) {
  ThingList list;
  draw_things(state, list);
  return list.things;
}

}  // namespace flotilla::coinrun
