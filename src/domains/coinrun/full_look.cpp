#include "flotilla/domains/coinrun/full_look.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace flotilla::coinrun {
namespace {

constexpr int kAgentColumn = 30, kAgentFeet = 35;  // of the view: its left and its lower edge

static_assert(kMostCells <= Grid::kBeyond);

constexpr int kMostLines = 5;  // of a cell

// Lines of a rectangle that is copied: where each is taken from. All go to consecutive lines of a
// view.
using Lines = std::array<const uint8_t*, kMostLines>;

constexpr size_t kPiece = 16;

// Lines of more than kPieces - 1 pieces and of at most kPieces: the last piece ends where the line
// does, and lies over the one before.
template <size_t kPieces>
void copy_lines(uint8_t* to, const Lines& from, size_t count, size_t bytes) {
  for (size_t line = 0; line < count; ++line, to += kRowBytes) {
    const uint8_t* source = from[line];
    std::memcpy(to, source, (kPieces - 1) * kPiece);
    std::memcpy(to + bytes - kPiece, source + bytes - kPiece, kPiece);
  }
}

// Lines of one to five pixels.
void copy_short_lines(uint8_t* to, const Lines& from, size_t count, size_t bytes) {
  for (size_t line = 0; line < count; ++line, to += kRowBytes) {
    for (size_t at = 0; at < bytes; at += 3) std::memcpy(to + at, from[line] + at, 3);
  }
}

using CopyLines = void (*)(uint8_t* to, const Lines& from, size_t count, size_t bytes);

// By the number of whole pieces. One loop for every length: its branches are easy to predict.
constexpr auto kCopies = []<size_t... kPieces>(std::index_sequence<kPieces...>) {
  return std::array<CopyLines, sizeof...(kPieces) + 1>{copy_short_lines,
                                                       copy_lines<kPieces + 1>...};
}
(std::make_index_sequence<kRowBytes / kPiece>());

void copy_rectangle(uint8_t* to, const Lines& from, size_t count, size_t bytes) {
  kCopies[bytes < kPiece ? 0 : (bytes + kPiece - 1) / kPiece](to, from, count, bytes);
}

class Canvas {
 public:
  Canvas(const State& state, const Art& art, const Background& background, Corner corner,
         ViewSpan view)
      : s_(state),
        art_(art),
        background_(background),
        corner_(corner),
        view_(view.data()),
        background_column_(corner.column +
                           static_cast<int>(state.level.background_x * Background::kWidth)) {}

  void draw() {
    draw_cells();
    draw_coin();
    draw_fixtures();
    for_trails(s_, [this](int age, float x, const Enemy& enemy) { draw_trail(age, x, enemy); });
    draw_movers();
  }

 private:
  void draw_cells() {
    find_columns();
    int row = cell_at(corner_.row);
    for (int line = 0; line < kView; --row) {
      const int end = std::min(corner_.row - edge(row) + 1, kView);
      draw_cell_row(row, line, end);
      line = end;
    }
  }

  // The lines [from, to) of the view, which show one row of cells: cells of a kind that lie side by
  // side are copied together.
  void draw_cell_row(int row, int from, int to) {
    const Cell* cells = s_.level.grid.from(std::clamp(first_column_, -Grid::kBeyond, kSide), row);
    const auto texture = [&](size_t i) { return textures_[static_cast<size_t>(cells[i])]; };
    for (size_t i = 0; begins_[i] < kView;) {
      const size_t first = i++;
      while (begins_[i] < kView && texture(i) == texture(first)) ++i;
      draw_run(texture(first), begins_[first], begins_[i], from, to);
    }
  }

  // Without a texture it is the background.
  void draw_run(const Texture* texture, int left, int right, int from, int to) {
    Lines lines{};
    for (int line = from; line < to; ++line) {
      const int row = corner_.row - line;
      lines[static_cast<size_t>(line - from)] =
          texture != nullptr ? texture->at(corner_.column + left, row)
                             : background_.at(background_column_ + left, row);
    }
    copy_rectangle(view_ + static_cast<size_t>(from) * kRowBytes + 3 * left, lines,
                   static_cast<size_t>(to - from), 3 * static_cast<size_t>(right - left));
  }

  void find_columns() {
    first_column_ = cell_at(corner_.column);
    for (int i = 0; i <= kMostCells; ++i) {
      begins_[static_cast<size_t>(i)] =
          std::clamp(edge(first_column_ + i) - corner_.column, 0, kView);
    }
    begins_[kMostCells] = kView;
    for (size_t kind = 0; kind < kCellKinds; ++kind) {
      const auto cell = static_cast<Cell>(kind);
      const bool is_solid = is_wall(cell) || is_lava(cell);
      textures_[kind] = is_solid ? &art_.tiles[s_.level.wall_theme][kind] : nullptr;
    }
  }

  // The cell that has this pixel.
  static int cell_at(int pixel) {
    int cell = pixel * kViewCells / kView;
    while (edge(cell) > pixel && cell > kFirstEdge) --cell;
    while (edge(cell + 1) <= pixel && cell < kLastEdge) ++cell;
    return cell;
  }

  // `column`, `row`: of the raster, at the lower left corner.
  void draw_sprite(const Sprite& sprite, int column, int row) {
    const int left = column - corner_.column;
    const int top = corner_.row - row - sprite.height + 1;
    if (left <= -sprite.width || left >= kView || top <= -sprite.height || top >= kView) return;
    const bool whole =
        left >= 0 && left + sprite.width <= kView && top >= 0 && top + sprite.height <= kView;
    const uint8_t* from = sprite.bytes.data();
    for (const Sprite::Piece& piece : sprite.pieces) {
      int begin = left + piece.column, end = begin + piece.length;
      const uint8_t* bytes = from;
      from += 3 * piece.length;
      const int line = top + piece.row;
      if (!whole) {
        if (line < 0 || line >= kView) continue;
        bytes += 3 * std::max(0, -begin);
        begin = std::max(begin, 0);
        end = std::min(end, kView);
        if (begin >= end) continue;
      }
      std::memcpy(view_ + static_cast<size_t>(line) * kRowBytes + 3 * begin, bytes,
                  3 * static_cast<size_t>(end - begin));
    }
  }

  void draw_coin() { draw_sprite(art_.coin, edge(s_.level.goal_column), edge(s_.level.goal_row)); }

  void draw_fixtures() {
    for (size_t i = 0; i < s_.level.fixture_count; ++i) {
      const Fixture& fixture = s_.level.fixtures[i];
      const Sprite& sprite = fixture.kind == Fixture::Kind::kSaw ? art_.saws[second_saw(s_) ? 1 : 0]
                                                                 : art_.crates[fixture.look];
      draw_sprite(sprite, edge(fixture.column), edge(fixture.row));
    }
  }

  void draw_trail(int age, float x, const Enemy& enemy) {
    constexpr int kGrey = 232;
    const Trail& trail = art_.trails[static_cast<size_t>(age)];
    const TrailSize& size = kTrailSizes[static_cast<size_t>(age)];
    const int left = pixel_at(x - size.half_width) - corner_.column;
    if (left <= -trail.width || left >= kView) return;
    const int top = corner_.row + 1 - pixel_at(trail_y(enemy.y(), age) + size.half_height);
    if (top <= -trail.height || top >= kView) return;
    const uint8_t* inside = trail.inside.data();
    for (int line = top; line < top + trail.height; ++line) {
      for (int column = left; column < left + trail.width; ++column, ++inside) {
        if (*inside == 0 || line < 0 || line >= kView || column < 0 || column >= kView) continue;
        uint8_t* at = view_ + static_cast<size_t>(line) * kRowBytes + 3 * column;
        for (int c = 0; c < 3; ++c) {
          at[c] = static_cast<uint8_t>(at[c] + (kGrey - at[c]) * trail.share / 256);
        }
      }
    }
  }

  void draw_movers() {
    const auto& agent = art_.agents[s_.level.agent_theme][static_cast<size_t>(agent_pose(s_))];
    draw_sprite(agent[s_.faces_left != 0 ? 0 : 1], pixel_at(s_.x - kHalf),
                pixel_at(s_.y - kAgentHalfHeight));
    const size_t frame = second_frame(s_) ? 1 : 0;
    for (size_t i = 0; i < s_.enemy_count; ++i) {
      const Enemy& enemy = s_.enemies[i];
      draw_sprite(art_.enemies[enemy.look][frame][enemy.vx > 0 ? 1 : 0], pixel_at(enemy.x - kHalf),
                  edge(enemy.row));
    }
  }

  const State& s_;
  const Art& art_;
  const Background& background_;
  Corner corner_;
  uint8_t* view_;
  int background_column_;
  int first_column_ = 0;                               // of the cells in the view
  std::array<int, kMostCells + 1> begins_{};           // their columns of the view, and its end
  std::array<const Texture*, kCellKinds> textures_{};  // by Cell
};

}  // namespace

Corner corner_of(const State& state) {
  return {pixel_at(state.x - kHalf) - kAgentColumn,
          pixel_at(state.y - kAgentHalfHeight) + kAgentFeet - 1};
}

FullLook::FullLook(Mode mode)
    : art_(&art()), backgrounds_(&backgrounds(mode == Mode::kEasy ? 1 : kBackgrounds)) {}

void FullLook::draw(const State& state, Corner corner, ViewSpan view) const {
  Canvas(state, *art_, (*backgrounds_)[state.level.background], corner, view).draw();
}

}  // namespace flotilla::coinrun
