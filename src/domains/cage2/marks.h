// Small marks for the actions of both sides, told apart by their shape alone.
#pragma once

#include "flotilla/report/svg.h"

namespace flotilla::cage2 {

enum class Shape { kDown, kCross, kSquare, kDiamond, kDisc, kRight, kUp, kStar };

// About 5 wide and high. Hollow marks are white inside, so that they differ from full ones on every
// ground.
void draw_mark(svg::Drawing& drawing, Shape shape, svg::Point centre, const char* colour,
               bool hollow = false);

}  // namespace flotilla::cage2
