#include "flotilla/domains/coinrun/art.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "flotilla/domains/coinrun/pixel_noise.h"

namespace flotilla::coinrun {
namespace {

// A place in a cell: pixels from its left and lower edge, and its height.
struct Spot {
  int column, row, height;
  uint32_t noise;  // of the pixel, the same wherever the tile is repeated
  bool at_border() const { return column == 0 || row == 0; }
  bool at_top() const { return row == height - 1; }
};

// The cells of the pixels of a period.
constexpr std::array<int, Texture::kPeriod> kCells = [] {
  std::array<int, Texture::kPeriod> cells{};
  int cell = 0;
  for (int pixel = 0; pixel < Texture::kPeriod; ++pixel) {
    if (edge(cell + 1) <= pixel) ++cell;
    cells[static_cast<size_t>(pixel)] = cell;
  }
  return cells;
}();

Spot spot_at(int column, int row, uint32_t seed) {
  const int x = kCells[static_cast<size_t>(column)], y = kCells[static_cast<size_t>(row)];
  return {.column = column - edge(x),
          .row = row - edge(y),
          .height = edge(y + 1) - edge(y),
          .noise = pixel_noise(column, row, seed)};
}

template <class Paint>
void paint(Texture& texture, uint32_t seed, const Paint& colour_at) {
  constexpr size_t kPeriodBytes = 3 * Texture::kPeriod;
  for (int row = 0; row < Texture::kPeriod; ++row) {
    auto& bytes = texture.rows[static_cast<size_t>(row)];
    for (int column = 0; column < Texture::kPeriod; ++column) {
      const Rgb colour = colour_at(spot_at(column, row, seed));
      uint8_t* at = bytes.data() + 3 * column;
      at[0] = colour.r;
      at[1] = colour.g;
      at[2] = colour.b;
    }
    std::copy_n(bytes.data(), bytes.size() - kPeriodBytes, bytes.data() + kPeriodBytes);
  }
}

enum class Grain : uint8_t { kSpeckles, kBricks, kLayers };

struct WallTheme {
  Rgb body, dark, top, edge;
  Grain grain;
};
constexpr std::array<WallTheme, kWallThemes> kWalls = {{
    {{139, 98, 62}, {118, 80, 50}, {104, 190, 72}, {70, 150, 56}, Grain::kSpeckles},      // meadow
    {{214, 176, 112}, {196, 156, 94}, {238, 210, 140}, {222, 188, 116}, Grain::kLayers},  // sand
    {{150, 170, 192}, {130, 150, 176}, {240, 246, 252}, {206, 222, 238}, Grain::kSpeckles},  // snow
    {{126, 126, 134}, {98, 98, 108}, {164, 164, 170}, {142, 142, 150}, Grain::kBricks},  // stone
    {{122, 72, 56}, {98, 54, 44}, {232, 150, 190}, {206, 118, 164}, Grain::kBricks},     // cake
    {{96, 78, 128}, {78, 62, 108}, {126, 206, 196}, {92, 168, 164}, Grain::kLayers},     // planet
}};

bool is_dark(Grain grain, const Spot& spot) {
  switch (grain) {
    case Grain::kSpeckles:
      return spot.noise % 5 == 0;
    case Grain::kBricks:
      return spot.at_border();
    case Grain::kLayers:
      return spot.row % 3 == 0 && spot.noise % 4 != 0;
  }
  return false;
}

void paint_walls(std::array<Texture, kCellKinds>& tiles, const WallTheme& theme, uint32_t seed) {
  const auto body = [&theme](const Spot& spot) {
    return is_dark(theme.grain, spot) ? theme.dark : theme.body;
  };
  paint(tiles[static_cast<size_t>(Cell::kWallBody)], seed, body);
  paint(tiles[static_cast<size_t>(Cell::kWallTop)], seed, [&](const Spot& spot) {
    if (spot.at_top()) return theme.top;
    if (spot.row == spot.height - 2) return spot.noise % 3 == 0 ? theme.edge : theme.top;
    return spot.row == spot.height - 3 && spot.noise % 2 == 0 ? theme.edge : body(spot);
  });
}

void paint_lava(std::array<Texture, kCellKinds>& tiles) {
  constexpr Rgb kDeep = {206, 52, 22}, kHot = {238, 104, 32}, kGlow = {255, 196, 64};
  constexpr uint32_t kSeed = 77;
  const auto body = [&](const Spot& spot) { return spot.noise % 4 == 0 ? kHot : kDeep; };
  paint(tiles[static_cast<size_t>(Cell::kLavaBody)], kSeed, body);
  paint(tiles[static_cast<size_t>(Cell::kLavaTop)], kSeed, [&](const Spot& spot) {
    if (spot.at_top()) return spot.noise % 3 == 0 ? kHot : kGlow;
    return body(spot);
  });
}

// Letters of the drawings below: x, y, z are colours of the thing.
struct Ink {
  Rgb x, y, z;
  Rgb of(char letter) const {
    switch (letter) {
      case 'x':
        return x;
      case 'y':
        return y;
      case 'z':
        return z;
      case 'w':
        return {250, 250, 250};
      default:
        return {24, 22, 30};
    }
  }
};

// A drawing: rows from the top with a '/' between them, '.' is a hole.
Sprite draw(std::string_view drawing, const Ink& ink, bool mirrored = false) {
  Sprite sprite;
  const auto width = std::min(drawing.find('/'), drawing.size());
  sprite.width = static_cast<int>(width);
  sprite.height = static_cast<int>((drawing.size() + 1) / (width + 1));
  for (size_t row = 0; row < static_cast<size_t>(sprite.height); ++row) {
    bool inside = false;
    for (size_t column = 0; column < width; ++column) {
      const size_t from = mirrored ? width - 1 - column : column;
      const char letter = drawing[row * (width + 1) + from];
      if (letter != '.') {
        if (!inside) {
          sprite.pieces.push_back({static_cast<uint8_t>(column), static_cast<uint8_t>(row), 0});
        }
        ++sprite.pieces.back().length;
        const Rgb colour = ink.of(letter);
        sprite.bytes.insert(sprite.bytes.end(), {colour.r, colour.g, colour.b});
      }
      inside = letter != '.';
    }
  }
  return sprite;
}

Art::Mirrored draw_both(std::string_view looks_right, const Ink& ink) {
  return {draw(looks_right, ink, true), draw(looks_right, ink)};
}

// By Pose. x: skin and helmet, y: suit, z: boots
constexpr std::array<std::string_view, 3> kAgentPoses = {
    ".xxx./xxxxx/xxkwk/xxwww/.xxx./.yyy./yyyyy/xyyyx/.yyy./.z.z.",
    ".xxx./xxxxx/xxkwk/xxwww/.xxx./.yyy./yyyyx/xyyy./.yyyz/z....",
    ".xxx./xxxxx/xxkwk/xxwww/.xxx./.yyy./xyyy./.yyyx/.yy../..zz."};
constexpr std::array<Ink, kAgentThemes> kAgentInks = {{
    {{244, 214, 120}, {222, 168, 42}, {120, 84, 30}},
    {{150, 214, 150}, {62, 160, 84}, {34, 90, 52}},
    {{156, 196, 244}, {58, 114, 206}, {34, 58, 120}},
    {{246, 172, 196}, {214, 84, 136}, {122, 40, 80}},
    {{226, 222, 214}, {156, 146, 132}, {84, 78, 70}},
}};

// Three kinds of creatures in two frames; x: body, y: belly, z: feet and spikes
constexpr std::array<std::array<std::string_view, 2>, 3> kCreatures = {{
    {".xxx./xxxkx/xxxwx/xyyyx/z.z.z", ".xxx./xxxkx/xxxwx/xyyyx/.z.z."},
    {"z.z.z/xxxxx/xxkxk/xyyyx/.xxx.", ".z.z./xxxxx/xxkxk/xyyyx/.xxx."},
    {"...xx/..xwk/xxxxx/xyyyx/zz.zz", "...xx/..xwk/xxxxx/xyyyx/.zzz."},
}};
constexpr std::array<Ink, kEnemyLooks> kEnemyInks = {{
    {{196, 60, 60}, {236, 150, 130}, {96, 24, 30}},
    {{120, 60, 170}, {190, 150, 220}, {60, 26, 96}},
    {{60, 130, 60}, {170, 210, 120}, {28, 72, 34}},
    {{60, 120, 190}, {160, 200, 236}, {26, 60, 110}},
    {{222, 132, 40}, {250, 206, 120}, {122, 64, 18}},
    {{60, 60, 70}, {130, 130, 144}, {210, 60, 60}},
    {{220, 90, 160}, {250, 180, 216}, {124, 38, 88}},
    {{46, 150, 150}, {150, 220, 210}, {20, 84, 88}},
    {{150, 110, 70}, {214, 180, 140}, {82, 56, 34}},
}};

constexpr std::array<std::string_view, 2> kSaws = {"x.y.x/.xyx./yyzyy/.xyx./x.y.x",
                                                   ".xyx./xxyxx/yyzyy/xxyxx/.xyx."};
constexpr Ink kSteel = {{208, 212, 220}, {146, 152, 164}, {70, 74, 84}};

constexpr std::array<std::string_view, kCrateLooks> kCrates = {
    "yyyyy/yxzxy/yzxzy/yxzxy/yyyyy", "yyyyy/yxxxy/yyyyy/yxxxy/yyyyy",
    "yyyyy/yxyxy/yxyxy/yxyxy/yyyyy", "yyyyy/yzxxy/yxzxy/yxxzy/yyyyy"};
constexpr Ink kWood = {{202, 150, 88}, {128, 84, 44}, {168, 116, 64}};

constexpr std::string_view kCoin = ".yyy./yxwxy/yxxxy/yxxzy/.yzy.";
constexpr Ink kGold = {{255, 216, 60}, {214, 152, 22}, {238, 184, 36}};

Trail make_trail(int age) {
  const TrailSize& size = kTrailSizes[static_cast<size_t>(age)];
  Trail trail;
  trail.width = std::max(1, pixel_at(2 * size.half_width));
  trail.height = std::max(1, pixel_at(2 * size.half_height));
  trail.share = 160 * (kTrailAges - age) / kTrailAges;
  for (int row = 0; row < trail.height; ++row) {
    for (int column = 0; column < trail.width; ++column) {
      // Twice the distance from the middle, on both axes of an ellipse.
      const int dx = (2 * column + 1 - trail.width) * trail.height;
      const int dy = (2 * row + 1 - trail.height) * trail.width;
      const int radius = trail.width * trail.height;
      trail.inside.push_back(static_cast<uint8_t>(dx * dx + dy * dy <= radius * radius));
    }
  }
  return trail;
}

std::unique_ptr<Art> make_art() {
  auto art = std::make_unique<Art>();
  for (size_t theme = 0; theme < kWallThemes; ++theme) {
    paint_walls(art->tiles[theme], kWalls[theme], static_cast<uint32_t>(theme));
    if (theme == 0) paint_lava(art->tiles[theme]);
    for (const Cell lava : {Cell::kLavaBody, Cell::kLavaTop}) {
      art->tiles[theme][static_cast<size_t>(lava)] = art->tiles[0][static_cast<size_t>(lava)];
    }
  }
  for (size_t theme = 0; theme < kAgentThemes; ++theme) {
    for (size_t pose = 0; pose < kAgentPoses.size(); ++pose) {
      art->agents[theme][pose] = draw_both(kAgentPoses[pose], kAgentInks[theme]);
    }
  }
  for (size_t look = 0; look < kEnemyLooks; ++look) {
    for (size_t frame = 0; frame < 2; ++frame) {
      art->enemies[look][frame] = draw_both(kCreatures[look % 3][frame], kEnemyInks[look]);
    }
  }
  for (size_t frame = 0; frame < 2; ++frame) art->saws[frame] = draw(kSaws[frame], kSteel);
  for (size_t look = 0; look < kCrateLooks; ++look) art->crates[look] = draw(kCrates[look], kWood);
  art->coin = draw(kCoin, kGold);
  for (int age = 0; age < kTrailAges; ++age) {
    art->trails[static_cast<size_t>(age)] = make_trail(age);
  }
  return art;
}

}  // namespace

const Art& art() {
  static const std::unique_ptr<const Art> made = make_art();
  return *made;
}

}  // namespace flotilla::coinrun
