#include "flotilla/domains/coinrun/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "flotilla/core/base64.h"
#include "flotilla/domains/coinrun/full_look.h"
#include "flotilla/domains/coinrun/png.h"
#include "flotilla/report/svg.h"

namespace flotilla::coinrun {
namespace {

constexpr int kFramesInRow = 8, kGap = 2;

// Copies a view to a place of a picture, as far as it fits.
void put(Picture& picture, const uint8_t* view, int left, int top) {
  const int width = std::min(kView, picture.width - left);
  for (int row = 0; row < std::min(kView, picture.height - top); ++row) {
    std::memcpy(picture.at(left, top + row), view + static_cast<size_t>(row) * kRowBytes,
                3 * static_cast<size_t>(width));
  }
}

int highest_row(const State& state) {
  int highest = state.level.goal_row;
  for (size_t i = 0; i < state.level.fixture_count; ++i) {
    highest = std::max<int>(highest, state.level.fixtures[i].row);
  }
  return highest;
}

Picture enlarged(const Picture& picture, int scale) {
  Picture large(picture.width * scale, picture.height * scale);
  for (int row = 0; row < large.height; ++row) {
    for (int column = 0; column < large.width; ++column) {
      std::memcpy(large.at(column, row), picture.at(column / scale, row / scale), 3);
    }
  }
  return large;
}

}  // namespace

Picture draw_level(const State& state, Mode mode) {
  constexpr int kBeyond = 2, kAbove = 4;  // cells behind the coin, and above everything
  const FullLook look(mode);
  Picture picture(edge(state.level.goal_column + 1 + kBeyond),
                  edge(std::max(highest_row(state) + 1 + kAbove, kViewCells)));
  std::vector<uint8_t> view(kViewBytes);
  for (int top = 0; top < picture.height; top += kView) {
    for (int left = 0; left < picture.width; left += kView) {
      look.draw(state, {left, picture.height - 1 - top}, ViewSpan(view.data(), kViewBytes));
      put(picture, view.data(), left, top);
    }
  }
  return picture;
}

Picture film_strip(const std::vector<std::vector<uint8_t>>& frames) {
  constexpr int kStep = kView + kGap;
  const int count = static_cast<int>(frames.size());
  const int columns = std::min(count, kFramesInRow);
  Picture strip(columns * kStep - kGap, (count + columns - 1) / columns * kStep - kGap);
  std::ranges::fill(strip.bytes, uint8_t{255});
  for (int i = 0; i < count; ++i) {
    put(strip, frames[static_cast<size_t>(i)].data(), i % columns * kStep, i / columns * kStep);
  }
  return strip;
}

std::vector<size_t> evenly(size_t size, size_t count) {
  std::vector<size_t> chosen;
  if (count == 1 && size > 0) return {0};
  for (size_t i = 0; i < std::min(size, count); ++i) {
    chosen.push_back(size <= count ? i : i * (size - 1) / (count - 1));
  }
  return chosen;
}

std::string png_of(const Picture& picture, int scale) { return to_png(enlarged(picture, scale)); }

std::string svg_of(const Picture& picture, int scale, const std::string& title) {
  const std::string png = to_png(picture);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {2} "
      "{3}\">\n<title>{4}</title>\n<image width=\"{2}\" height=\"{3}\" "
      "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{5}\"/>\n</svg>\n",
      picture.width * scale, picture.height * scale, picture.width, picture.height,
      svg::xml_escaped(title), to_base64(std::as_bytes(std::span(png))));
}

}  // namespace flotilla::coinrun
