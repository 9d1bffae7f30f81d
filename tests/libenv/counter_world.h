// The world of the library in counter.cpp: a counter that walks between -length and length, pushed
// by its action and by chance. It is won at the upper end. Tests step it by themselves as well.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace counter {

constexpr int kRows = 4, kColumns = 5, kChannels = 3;
using Picture = std::array<uint8_t, kRows * kColumns * kChannels>;

struct Options {
  int32_t rand_seed = 0;
  int32_t length = 3;
  bool shiny = false;
  std::string name = "counter";
};

struct World {
  uint32_t random = 0;
  int32_t length = 0, position = 0, steps = 0, episode = 0;
  // Of the latest act().
  int32_t won = 0;
  float reward = 0;
  uint8_t first = 1;

  explicit World(const Options& options)
      : random(static_cast<uint32_t>(options.rand_seed)), length(options.length) {}

  // The library resets itself when an episode ends.
  void act(int32_t push) {
    random = random * 1664525u + 1013904223u;
    position += push + static_cast<int32_t>(random >> 30) - 1;  // chance: -1 to 2
    ++steps;
    won = position >= length ? 1 : 0;
    first = won != 0 || position <= -length ? 1 : 0;
    reward = won != 0 ? 10.0f : -0.25f;
    if (first == 0) return;
    position = steps = 0;
    ++episode;
  }

  float mean() const { return static_cast<float>(position) / static_cast<float>(steps + 1); }

  Picture picture(const Options& options) const {
    Picture all;
    for (size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<uint8_t>(7 * i + 31 * static_cast<size_t>(position + 100) +
                                    static_cast<size_t>(steps) + (options.shiny ? 128 : 0) +
                                    options.name.size());
    }
    return all;
  }
};

}  // namespace counter
