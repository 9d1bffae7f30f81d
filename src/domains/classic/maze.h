// Maze: visit four 4 x 4 checkpoints of a 30 x 30 grid with 15 % walls. The walls are drawn from
// layout_seed alone, so that all envs of a run share one maze.
#pragma once

#include "flotilla/domains/classic/grid_world.h"

namespace flotilla::classic {

class Maze : public GridWorld {
 public:
  static Schema schema();

  explicit Maze(const Config& config);
};

}  // namespace flotilla::classic
