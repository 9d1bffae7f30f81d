// The pictures of the full look, all drawn by the code in art.cpp and backgrounds.cpp: tiles of the
// ground, sprites, backgrounds.
//
// Everything lies on one raster of pixels, in which 13 cells are 64 pixels: cell c begins at pixel
// edge(c), and each is 4 or 5 pixels wide. Tiles repeat after 13 cells, so a row of pixels of any
// stretch of ground can be copied as one piece.
//
// Determinism: pictures are made by integer arithmetic and sums and products of floats: they are
// the same on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "flotilla/domains/coinrun/picture.h"
#include "flotilla/domains/coinrun/poses.h"
#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

// Where a cell begins on the raster; from kFirstEdge to kLastEdge.
constexpr int kFirstEdge = -32, kLastEdge = kSide + 32;
constexpr std::array<int16_t, kLastEdge - kFirstEdge + 1> kEdges = [] {
  std::array<int16_t, kLastEdge - kFirstEdge + 1> edges{};
  constexpr int kPeriods = 3;  // of 13 cells and 64 pixels: keeps what is divided positive
  for (size_t i = 0; i < edges.size(); ++i) {
    const int cell = kFirstEdge + static_cast<int>(i) + 13 * kPeriods;
    edges[i] = static_cast<int16_t>((cell * 128 + 13) / 26 - 64 * kPeriods);
  }
  return edges;
}();
constexpr int edge(int cell) {
  return kEdges[static_cast<size_t>(std::clamp(cell, kFirstEdge, kLastEdge) - kFirstEdge)];
}
// The pixel nearest to a place.
inline int pixel_at(float place) {
  const float shifted = place * kPixelsPerCell + 0.5F;
  const int whole = static_cast<int>(shifted);
  return whole - static_cast<int>(shifted < static_cast<float>(whole));
}

// A tile, repeated over 13 x 13 cells, and to the right so that a row of a view may be copied from
// any place of it.
struct Texture {
  static constexpr int kPeriod = 64;
  static constexpr size_t kStride = 3 * (kPeriod + kView);

  // The bytes from a pixel of the raster on, whose rows go up.
  const uint8_t* at(int column, int row) const {
    return rows[static_cast<size_t>(row & (kPeriod - 1))].data() + 3 * (column & (kPeriod - 1));
  }

  std::array<std::array<uint8_t, kStride>, kPeriod> rows;
};

// A small picture with holes: its opaque pixels, in pieces of rows.
struct Sprite {
  struct Piece {
    uint8_t column, row, length;  // rows go down
  };
  int width = 0, height = 0;
  std::vector<Piece> pieces;
  std::vector<uint8_t> bytes;  // of all pieces, RGB
};

struct Trail {
  int width = 0, height = 0;
  int share = 0;                // of its colour, in 256ths
  std::vector<uint8_t> inside;  // flags of its pixels
};

struct Art {
  using Mirrored = std::array<Sprite, 2>;  // looking left, looking right

  std::array<std::array<Texture, kCellKinds>, kWallThemes> tiles;  // of walls and lava
  std::array<std::array<Mirrored, 3>, kAgentThemes> agents;        // by Pose
  std::array<std::array<Mirrored, 2>, kEnemyLooks> enemies;        // by frame
  std::array<Sprite, 2> saws;
  std::array<Sprite, kCrateLooks> crates;
  Sprite coin;
  std::array<Trail, kTrailAges> trails;
};

// Made at the first call.
const Art& art();

// A background repeats after kWidth pixels. It shows the lower part of a picture that is as high as
// the world: nobody gets higher.
struct Background {
  static constexpr int kWidth = 256, kHeight = 208;
  static constexpr size_t kStride = 3 * (kWidth + kView);

  // The bytes from a pixel on; rows go up and the first and the last one are repeated.
  const uint8_t* at(int column, int row) const {
    const int inside = row < 0 ? 0 : row < kHeight ? row : kHeight - 1;
    return bytes.data() + static_cast<size_t>(inside) * kStride + 3 * (column & (kWidth - 1));
  }

  std::vector<uint8_t> bytes;
};

// The first `count` of kBackgrounds, which are made at the first call that needs them.
const std::array<Background, kBackgrounds>& backgrounds(int count);

}  // namespace flotilla::coinrun
