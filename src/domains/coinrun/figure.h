// Pictures for people: a whole level, and an episode as a film strip.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/coinrun/picture.h"
#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

// The whole level with everything in it, in the full look.
Picture draw_level(const State& state, Mode mode);

// Observations side by side, with lines between them. REQUIRES: there are some.
Picture film_strip(const std::vector<std::vector<uint8_t>>& frames);

// `count` of the indices below `size`, from the first to the last.
std::vector<size_t> evenly(size_t size, size_t count);

// Every pixel `scale` times as large.
std::string png_of(const Picture& picture, int scale);
std::string svg_of(const Picture& picture, int scale, const std::string& title);

}  // namespace flotilla::coinrun
