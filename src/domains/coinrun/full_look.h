// The picture with sprites, textured ground and a background, laid out as in the Procgen library:
// what is where, in which order and how large; the drawings are this project's own.
//
// Things lie on one raster of pixels (art.h), and the view on a whole pixel of it, the one that
// puts the agent to its place: so everything is copied, nothing is scaled. Places differ from exact
// ones by a pixel at most.
#pragma once

#include "flotilla/domains/coinrun/art.h"
#include "flotilla/domains/coinrun/picture.h"
#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

// The raster's pixel in the upper left corner of a view; rows of the raster go up.
struct Corner {
  int column, row;
};

// Of the agent's view.
Corner corner_of(const State& state);

class FullLook {
 public:
  // Makes the pictures that the mode needs, unless that was done before.
  explicit FullLook(Mode mode);

  void draw(const State& state, ViewSpan view) const { draw(state, corner_of(state), view); }
  // Any part of the world. REQUIRES: the state is of this mode.
  void draw(const State& state, Corner corner, ViewSpan view) const;

 private:
  const Art* art_;
  const std::array<Background, kBackgrounds>* backgrounds_;
};

}  // namespace flotilla::coinrun
