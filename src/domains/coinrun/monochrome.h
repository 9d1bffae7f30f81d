// The picture with one plain colour for every kind of thing, equal to that of the Procgen library
// (use_monochrome_assets, no backgrounds) in every pixel.
#pragma once

#include "flotilla/domains/coinrun/picture.h"
#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

void draw_monochrome(const State& state, ViewSpan view);

}  // namespace flotilla::coinrun
