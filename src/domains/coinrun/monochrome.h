// The picture with one plain colour for every kind of thing, equal to that of the Procgen library
// (use_monochrome_assets, no backgrounds) in every pixel.
#pragma once

#include <vector>

#include "flotilla/domains/coinrun/picture.h"
#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

void draw_monochrome(const State& state, ViewSpan view);

// A box over the cells. Its colour follows from the number the library has for such things and from
// the theme.
struct Thing {
  int kind, theme;
  float x, y, half_width, half_height;
};

// All of a state in the order of drawing, also those that the view does not reach.
std::vector<Thing> things_over_cells(const State& state);

}  // namespace flotilla::coinrun
