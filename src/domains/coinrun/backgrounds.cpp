// 49 landscapes and 13 skies of other worlds: a sky, what floats in it, and rows of hills, trees,
// houses or dunes before it, all from noise with the number of the picture as its seed.
#include <algorithm>
#include <mutex>

#include "flotilla/domains/coinrun/art.h"
#include "flotilla/domains/coinrun/pixel_noise.h"

namespace flotilla::coinrun {
namespace {

constexpr int kLandscapes = 49;
constexpr int kWidth = Background::kWidth, kHeight = Background::kHeight;

struct Colour {
  float r = 0, g = 0, b = 0;  // 0 to 1
};

Colour blend(const Colour& a, const Colour& b, float share) {
  return {a.r + (b.r - a.r) * share, a.g + (b.g - a.g) * share, a.b + (b.b - a.b) * share};
}

// Hue and saturation and value from 0 to 1.
Colour from_hue(float hue, float saturation, float value) {
  const auto channel = [&](float shift) {
    float place = hue + shift;
    place = 6 * (place - static_cast<float>(static_cast<int>(place)));
    const float distance = place < 3 ? place : 6 - place;  // from this channel's own hue
    const float purity = std::clamp(2 - distance, 0.0F, 1.0F);
    return value * (1 - saturation * (1 - purity));
  };
  return {channel(0), channel(2.0F / 3), channel(1.0F / 3)};
}

// Smooth noise along the picture's width, which closes in itself; from 0 to 1.
float waves(int column, int count, uint32_t seed) {
  const int length = kWidth / count;
  const int from = column / length;
  const float part = static_cast<float>(column % length) / static_cast<float>(length);
  const float smooth = part * part * (3 - 2 * part);
  const float a = unit_noise(from, 0, seed), b = unit_noise((from + 1) % count, 0, seed);
  return a + (b - a) * smooth;
}

// The same over the plane.
float clouds(int column, int row, int count, uint32_t seed) {
  const int length = kWidth / count;
  const float part = static_cast<float>(row % length) / static_cast<float>(length);
  const float smooth = part * part * (3 - 2 * part);
  const auto line = static_cast<uint32_t>(row / length);
  const float low = waves(column, count, seed + 101 * line);
  const float high = waves(column, count, seed + 101 * (line + 1));
  return low + (high - low) * smooth;
}

class Painter {
 public:
  Painter(Background& background, int number)
      : background_(background), seed_(mixed(static_cast<uint32_t>(number) + 1)) {
    background_.bytes.resize(Background::kStride * static_cast<size_t>(kHeight));
  }

  void paint_landscape() {
    const float hue = random(1), other = random(2);
    const Colour high = from_hue(hue, 0.25F + 0.4F * random(3), 0.55F + 0.4F * random(4));
    const Colour low = from_hue(other, 0.1F + 0.35F * random(5), 0.75F + 0.25F * random(6));
    const bool cloudy = random(7) < 0.6F;
    for_pixels([&](int column, int row) {
      const float height = static_cast<float>(row) / kHeight;
      Colour sky = blend(low, high, height);
      if (cloudy) {
        const float cloud = clouds(column, row * 2, 8, seed_ + 8) * 0.7F +
                            clouds(column, row * 2, 32, seed_ + 9) * 0.3F;
        if (cloud > 0.62F) sky = blend(sky, {1, 1, 1}, 0.65F);
      }
      return sky;
    });
    const int ranges = 2 + static_cast<int>(3 * random(10));
    const Colour near = from_hue(random(11), 0.35F + 0.4F * random(12), 0.25F + 0.3F * random(13));
    for (int i = 0; i < ranges; ++i) {
      const float share = static_cast<float>(i + 1) / static_cast<float>(ranges);
      const float base = 90 - 65 * share;
      paint_range(i, base, blend(low, near, share));
    }
  }

  void paint_space() {
    const Colour dark = from_hue(random(1), 0.6F, 0.08F + 0.1F * random(2));
    const Colour glow = from_hue(random(3), 0.6F, 0.3F + 0.3F * random(4));
    for_pixels([&](int column, int row) {
      const float mist =
          clouds(column, row, 8, seed_ + 5) * 0.6F + clouds(column, row, 32, seed_ + 6) * 0.4F;
      const Colour sky = blend(dark, glow, std::clamp(2 * mist - 0.8F, 0.0F, 1.0F));
      const uint32_t star = pixel_noise(column, row, seed_ + 7) % 256;
      return star < 3 ? blend(sky, {1, 1, 1}, 0.4F + 0.2F * static_cast<float>(star)) : sky;
    });
    const int planets = 1 + static_cast<int>(3 * random(8));
    for (int i = 0; i < planets; ++i) paint_planet(i);
  }

 private:
  float random(int index) const { return unit_noise(index, 1, seed_); }

  void set(int column, int row, const Colour& colour) {
    const auto byte = [](float value) {
      return static_cast<uint8_t>(255 * std::clamp(value, 0.0F, 1.0F) + 0.5F);
    };
    uint8_t* at =
        background_.bytes.data() + static_cast<size_t>(row) * Background::kStride + 3 * column;
    at[0] = byte(colour.r);
    at[1] = byte(colour.g);
    at[2] = byte(colour.b);
  }

  template <class Paint>
  void for_pixels(const Paint& colour_at) {
    for (int row = 0; row < kHeight; ++row) {
      for (int column = 0; column < kWidth; ++column) set(column, row, colour_at(column, row));
    }
  }

  // Hills, peaks, trees, houses or dunes, from one side to the other.
  void paint_range(int index, float base, const Colour& colour) {
    const uint32_t seed = seed_ + 1000 * static_cast<uint32_t>(index + 1);
    const auto kind = pixel_noise(index, 2, seed_) % 5;
    for (int column = 0; column < kWidth; ++column) {
      const int top = static_cast<int>(base + outline(kind, column, seed));
      for (int row = 0; row < std::clamp(top, 0, kHeight); ++row) {
        const bool lit =
            kind == 3 && column % 4 == 1 && row % 5 == 2 && pixel_noise(column, row, seed) % 3 == 0;
        const bool grain = pixel_noise(column, row, seed) % 7 == 0;
        const float shade = lit ? 1.6F : grain ? 0.9F : row > top - 3 ? 1.12F : 1.0F;
        set(column, row, {colour.r * shade, colour.g * shade, colour.b * shade});
      }
    }
  }

  static float outline(uint32_t kind, int column, uint32_t seed) {
    const auto zigzag = [&](int length, float height) {
      const int place = column % length;
      const float part = static_cast<float>(place < length / 2 ? place : length - place) * 2 /
                         static_cast<float>(length);
      return height * part * (0.5F + 0.5F * unit_noise(column / length, 3, seed));
    };
    switch (kind) {
      case 0:
        return 44 * waves(column, 8, seed) + 8 * waves(column, 32, seed + 1);
      case 1:
        return zigzag(64, 60) + 10 * waves(column, 16, seed);
      case 2:
        return 18 * waves(column, 8, seed) + zigzag(16, 26);
      case 3:
        return 10 + 44 * unit_noise(column / 16, 4, seed);
      default:
        return 26 * waves(column, 4, seed) + 6 * waves(column, 16, seed + 1);
    }
  }

  void paint_planet(int index) {
    const auto part = [&](int what) { return unit_noise(index, 10 + what, seed_); };
    const int middle = static_cast<int>(kWidth * part(0)),
              height = static_cast<int>(30 + 150 * part(1));
    const int radius = static_cast<int>(8 + 26 * part(2));
    const Colour colour = from_hue(part(3), 0.5F, 0.45F + 0.4F * part(4));
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) {
        const int row = height + dy;
        if (dx * dx + dy * dy > radius * radius || row < 0 || row >= kHeight) continue;
        const float light = 0.6F + 0.4F * static_cast<float>(dy - dx) / static_cast<float>(radius);
        const float band =
            clouds((middle + dx) & (kWidth - 1), 4 * row, 16, seed_ + 20) * 0.3F + 0.85F;
        set((middle + dx) & (kWidth - 1), row,
            {colour.r * light * band, colour.g * light * band, colour.b * light * band});
      }
    }
  }

  Background& background_;
  uint32_t seed_;
};

// A view may begin in the last column: what follows it is the beginning again.
void close(Background& background) {
  for (int row = 0; row < kHeight; ++row) {
    uint8_t* bytes = background.bytes.data() + static_cast<size_t>(row) * Background::kStride;
    std::copy_n(bytes, Background::kStride - size_t{3} * kWidth, bytes + 3 * kWidth);
  }
}

void make(Background& background, int number) {
  Painter painter(background, number);
  if (number < kLandscapes) {
    painter.paint_landscape();
  } else {
    painter.paint_space();
  }
  close(background);
}

}  // namespace

const std::array<Background, kBackgrounds>& backgrounds(int count) {
  static std::array<Background, kBackgrounds> made;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (int i = 0; i < count; ++i) {
    Background& background = made[static_cast<size_t>(i)];
    if (background.bytes.empty()) make(background, i);
  }
  return made;
}

}  // namespace flotilla::coinrun
