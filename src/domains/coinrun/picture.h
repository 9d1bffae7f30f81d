// Pictures of RGB bytes, and how the view of the game lies on the world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flotilla::coinrun {

constexpr int kView = 64;                   // pixels of an observation's side
constexpr int kViewCells = 13;              // cells of it
constexpr int kMostCells = kViewCells + 2;  // that a row of it may meet
constexpr size_t kRowBytes = 3 * kView;
constexpr size_t kViewBytes = kView * kRowBytes;
constexpr float kPixelsPerCell = 64.0F / 13;

using ViewSpan = std::span<uint8_t, kViewBytes>;  // top row first

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
};

struct Picture {
  Picture(int columns, int rows)
      : width(columns),
        height(rows),
        bytes(3 * static_cast<size_t>(columns) * static_cast<size_t>(rows)) {}

  uint8_t* at(int column, int row) {
    return bytes.data() + 3 * (static_cast<size_t>(row) * static_cast<size_t>(width) +
                               static_cast<size_t>(column));
  }
  const uint8_t* at(int column, int row) const {
    return const_cast<Picture*>(this)->at(column, row);
  }

  int width, height;
  std::vector<uint8_t> bytes;  // top row first
};

}  // namespace flotilla::coinrun
