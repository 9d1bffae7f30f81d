// Both looks against slow twins that follow the written rules pixel by pixel, and the pictures for
// people.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "flotilla/core/rng.h"
#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/dynamics.h"
#include "flotilla/domains/coinrun/figure.h"
#include "flotilla/domains/coinrun/full_look.h"
#include "flotilla/domains/coinrun/level.h"
#include "flotilla/domains/coinrun/monochrome.h"
#include "flotilla/domains/coinrun/png.h"

namespace flotilla::coinrun {
namespace {

using View = std::array<uint8_t, kViewBytes>;

const uint8_t* pixel(const View& view, int column, int row) {
  return view.data() + static_cast<size_t>(row) * kRowBytes + 3 * static_cast<size_t>(column);
}

// Rectangles over one another, in the order of the rules.
class MonochromeTwin {
 public:
  explicit MonochromeTwin(const State& state) : s_(state) {
    view_.fill(0);
    for (int column = -8; column < kSide + 8; ++column) {
      for (int row = -8; row < kSide + 8; ++row) draw_cell(column, row);
    }
    for (size_t i = 0; i < s_.level.fixture_count; ++i) {
      const Fixture& f = s_.level.fixtures[i];
      const bool saw = f.kind == Fixture::Kind::kSaw;
      box(f.x(), f.y(), 0.5F, 0.5F, saw ? 2 + s_.steps % 2 : 20, saw ? 0 : f.look);
    }
    for_trails(s_, [this](int age, float x, const Enemy& enemy) {
      const TrailSize& size = kTrailSizes[static_cast<size_t>(age)];
      box(x, trail_y(enemy.y(), age), size.half_width, size.half_height, 59, 0);
    });
    constexpr std::array<int, 3> kPoses = {0, 12, 13};
    box(s_.x, s_.y, 0.5F, kAgentHalfHeight, kPoses[static_cast<size_t>(agent_pose(s_))],
        s_.level.agent_theme);
    for (size_t i = 0; i < s_.enemy_count; ++i) {
      const Enemy& e = s_.enemies[i];
      box(e.x, e.y(), 0.5F, 0.5F, 6 + s_.steps / 5 % 2, e.look);
    }
  }
  const View& view() const { return view_; }

 private:
  void draw_cell(int column, int row) {
    const Cell cell = s_.level.at(column, row);
    constexpr std::array<int, kCellKinds> kKinds = {-1, 15, 16, 17, 18, -1, 1};
    const int kind = kKinds[static_cast<size_t>(cell)];
    if (kind < 0) return;
    rectangle(static_cast<float>(column), static_cast<float>(row + 1), 1, 1, 0.02F, kind,
              is_wall(cell) ? s_.level.wall_theme : 0);
  }
  void box(float x, float y, float rx, float ry, int kind, int theme) {
    rectangle(x - rx, y + ry, 2 * rx, 2 * ry, 0, kind, theme);
  }
  void rectangle(float left, float top, float width, float height, float margin, int kind,
                 int theme) {
    const float u = 64.0F / 13;
    const float x = (left - margin) * u - u * (s_.x - 6.5F);
    const float y = (13 - top - margin) * u + u * (s_.y - 6.5F);
    const auto whole = [](double place) { return static_cast<int>(std::floor(place + 0.5)); };
    const int v = (29 * (kind + 1) + 19 * theme) % 64;
    for (int row = whole(y); row < whole(double{y} + double{(height + 2 * margin) * u}); ++row) {
      for (int column = whole(x); column < whole(double{x} + double{(width + 2 * margin) * u});
           ++column) {
        if (row < 0 || row >= kView || column < 0 || column >= kView) continue;
        uint8_t* at = const_cast<uint8_t*>(pixel(view_, column, row));
        at[0] = static_cast<uint8_t>(64 * (v / 16 + 1) - 1);
        at[1] = static_cast<uint8_t>(64 * (v / 4 % 4 + 1) - 1);
        at[2] = static_cast<uint8_t>(64 * (v % 4 + 1) - 1);
      }
    }
  }

  const State& s_;
  View view_;
};

// Some states of an episode with random actions that lean to the right.
template <class Body>
void for_states(Mode mode, int levels, const Body& body) {
  Rng rng(5, stream_of(Purpose::kTest, 3));
  State state;
  for (int32_t seed = 0; seed < levels; ++seed) {
    begin_episode(state, seed, mode);
    for (int t = 0; t < 120; ++t) {
      const int action = rng.chance(0.7) ? 8 : static_cast<int>(rng.below(kActions));
      if (step(state, action).ended()) break;
      if (t % 7 == 0) body(state);
    }
  }
}

TEST(Monochrome, EqualsRectanglesInTheOrderOfTheRules) {
  int states = 0;
  for (const Mode mode : {Mode::kEasy, Mode::kHard}) {
    for_states(mode, 25, [&](const State& state) {
      View view;
      view.fill(77);
      draw_monochrome(state, view);
      ASSERT_EQ(view, MonochromeTwin(state).view()) << "level " << state.level.seed;
      ++states;
    });
  }
  EXPECT_GT(states, 300);
}

// Without anything that moves or covers: every pixel is that of its cell, or of the background.
TEST(FullLook, EveryPixelIsOfItsCellOrTheBackground) {
  const FullLook look(Mode::kHard);
  int states = 0;
  for_states(Mode::kHard, 12, [&](State state) {
    state.level.fixture_count = 0;
    state.enemy_count = 0;
    View view;
    view.fill(77);
    look.draw(state, view);
    const Corner corner = corner_of(state);
    const Background& background = backgrounds(kBackgrounds)[state.level.background];
    const auto shift = static_cast<int>(state.level.background_x * Background::kWidth);
    for (int row = 0; row < kView; ++row) {
      for (int column = 0; column < kView; ++column) {
        if (column >= 30 && column < 35 && row >= 25 && row < 35) continue;  // the agent
        const int x = corner.column + column, y = corner.row - row;
        int cell_x = -20, cell_y = -20;
        while (edge(cell_x + 1) <= x) ++cell_x;
        while (edge(cell_y + 1) <= y) ++cell_y;
        const Cell cell = state.level.at(cell_x, cell_y);
        // The coin is five pixels wide, its cell maybe four.
        const int from_coin_x = x - edge(state.level.goal_column);
        const int from_coin_y = y - edge(state.level.goal_row);
        if (from_coin_x >= 0 && from_coin_x < 5 && from_coin_y >= 0 && from_coin_y < 5) continue;
        const uint8_t* expected =
            is_wall(cell) || is_lava(cell)
                ? art().tiles[state.level.wall_theme][static_cast<size_t>(cell)].at(x, y)
                : background.at(x + shift, y);
        ASSERT_TRUE(std::equal(expected, expected + 3, pixel(view, column, row)))
            << "level " << state.level.seed << ", pixel " << column << " " << row;
      }
    }
    ++states;
  });
  EXPECT_GT(states, 80);
}

// Where a thing is drawn it covers about as many pixels as it is large, around its place.
TEST(FullLook, ThingsAreWhereTheyAre) {
  const FullLook look(Mode::kHard);
  std::set<std::string> seen;
  for_states(Mode::kHard, 60, [&](State state) {
    View with, without;
    look.draw(state, with);
    State empty = state;
    empty.level.fixture_count = 0;
    empty.enemy_count = 0;
    look.draw(empty, without);
    for (int row = 0; row < kView; ++row) {
      for (int column = 0; column < kView; ++column) {
        if (std::equal(pixel(with, column, row), pixel(with, column, row) + 3,
                       pixel(without, column, row))) {
          continue;
        }
        // The middle of the pixel in the world; a raster of whole pixels is off by one at most.
        const float x = state.x - 6.5F + (static_cast<float>(column) + 0.5F) * 13 / 64;
        const float y = state.y + 6.5F - (static_cast<float>(row) + 0.5F) * 13 / 64;
        const auto covers = [&](float at_x, float at_y) {
          return std::fabs(x - at_x) < 0.5F + 0.45F && std::fabs(y - at_y) < 0.5F + 0.45F;
        };
        bool found = false;
        for (size_t i = 0; i < state.level.fixture_count; ++i) {
          const Fixture& f = state.level.fixtures[i];
          if (!covers(f.x(), f.y())) continue;
          found = true;
          seen.insert(f.kind == Fixture::Kind::kSaw ? "saw" : "crate");
        }
        for (size_t i = 0; i < state.enemy_count; ++i) {
          if (!covers(state.enemies[i].x, state.enemies[i].y())) continue;
          found = true;
          seen.insert("enemy");
        }
        for_trails(state, [&](int age, float at_x, const Enemy& enemy) {
          found |= covers(at_x, trail_y(enemy.y(), age));
        });
        ASSERT_TRUE(found) << "level " << state.level.seed << ", " << x << " " << y;
      }
    }
  });
  EXPECT_EQ(seen, (std::set<std::string>{"crate", "enemy", "saw"}));
}

TEST(FullLook, TheAgentTurnsAndWalks) {
  const FullLook look(Mode::kEasy);
  State state;
  begin_episode(state, 0, Mode::kEasy);
  std::set<View> views;
  const auto draw = [&] {
    View view;
    look.draw(state, view);
    // The agent alone: what is behind it moves.
    View agent{};
    for (int row = 25; row < 35; ++row) {
      std::copy_n(pixel(view, 30, row), 15, const_cast<uint8_t*>(pixel(agent, 30, row)));
    }
    views.insert(agent);
  };
  state.supported = 1;
  draw();
  state.faces_left = 1;
  draw();
  state.push = -1;
  draw();
  state.steps = 5;
  draw();
  state.faces_left = 0;
  draw();
  EXPECT_EQ(views.size(), 5u);
}

TEST(FullLook, PicturesDiffer) {
  std::set<std::vector<uint8_t>> pictures;
  for (const Background& background : backgrounds(kBackgrounds)) pictures.insert(background.bytes);
  EXPECT_EQ(pictures.size(), size_t{kBackgrounds});
  const auto sprites_of = [](const auto& sprites) {
    std::set<std::vector<uint8_t>> found;
    for (const auto& each : sprites) found.insert(each[1][1].bytes);
    return found.size();
  };
  EXPECT_EQ(sprites_of(art().agents), size_t{kAgentThemes});
  EXPECT_EQ(sprites_of(art().enemies), size_t{kEnemyLooks});
}

// Pictures are made of sums and products alone: the same everywhere.
TEST(FullLook, PicturesAreTheSameOnEveryMachine) {
  uLong crc = crc32(0, nullptr, 0);
  for (const Background& background : backgrounds(kBackgrounds)) {
    crc = crc32(crc, background.bytes.data(), static_cast<uInt>(background.bytes.size()));
  }
  EXPECT_EQ(crc, 1864273814u);
  State state;
  begin_episode(state, 7, Mode::kHard);
  for (int t = 0; t < 30; ++t) step(state, 8);
  View view;
  FullLook(Mode::kHard).draw(state, view);
  EXPECT_EQ(crc32(0, view.data(), view.size()), 3025807397u);
}

uint32_t number_at(const std::string& bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = at; i < at + 4; ++i) number = number << 8U | static_cast<uint8_t>(bytes[i]);
  return number;
}

TEST(Png, HoldsThePixels) {
  Picture picture(3, 2);
  for (size_t i = 0; i < picture.bytes.size(); ++i) picture.bytes[i] = static_cast<uint8_t>(7 * i);
  const std::string png = to_png(picture);
  ASSERT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::string pixels;
  size_t at = 8;
  while (at < png.size()) {
    const uint32_t length = number_at(png, at);
    const std::string body = png.substr(at + 4, 4 + length);
    EXPECT_EQ(number_at(png, at + 8 + length), crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                                     static_cast<uInt>(body.size())));
    if (body.starts_with("IHDR")) {
      EXPECT_EQ(number_at(body, 4), 3u);
      EXPECT_EQ(number_at(body, 8), 2u);
    }
    if (body.starts_with("IDAT")) {
      uLongf size = 2 * 10;
      pixels.resize(size);
      ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(pixels.data()), &size,
                           reinterpret_cast<const Bytef*>(body.data()) + 4, length),
                Z_OK);
    }
    at += 12 + length;
  }
  const std::string all(picture.bytes.begin(), picture.bytes.end());
  EXPECT_EQ(pixels, std::string(1, '\0') + all.substr(0, 9) + std::string(1, '\0') + all.substr(9));
}

// The picture of a level is what the views in it show.
TEST(Figure, ALevelIsWhatItsViewsShow) {
  State state;
  begin_episode(state, 4, Mode::kHard);
  const Picture level = draw_level(state, Mode::kHard);
  View view;
  FullLook(Mode::kHard).draw(state, view);
  const Corner corner = corner_of(state);
  int compared = 0;
  for (int row = 0; row < kView; ++row) {
    for (int column = 0; column < kView; ++column) {
      const int x = corner.column + column, y = level.height - 1 - (corner.row - row);
      if (x < 0 || y < 0 || x >= level.width || y >= level.height) continue;
      ASSERT_TRUE(std::equal(level.at(x, y), level.at(x, y) + 3, pixel(view, column, row)));
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(Figure, FramesAreChosenEvenly) {
  EXPECT_EQ(evenly(3, 16), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(evenly(101, 5), (std::vector<size_t>{0, 25, 50, 75, 100}));
  EXPECT_EQ(evenly(5, 1), (std::vector<size_t>{0}));
  const Picture strip =
      film_strip(std::vector<std::vector<uint8_t>>(9, std::vector<uint8_t>(kViewBytes)));
  EXPECT_EQ(strip.width, 8 * 66 - 2);
  EXPECT_EQ(strip.height, 2 * 66 - 2);
}

}  // namespace
}  // namespace flotilla::coinrun
