// Corners: visit the four corners of an 11 x 11 grid from its middle. The best return of the order
// 0,1,2,3 is 9.40, in 60 steps.
#pragma once

#include "flotilla/domains/classic/grid_world.h"

namespace flotilla::classic {

class Corners : public GridWorld {
 public:
  static Schema schema() { return grid_schema(242); }

  explicit Corners(const Config& config) : GridWorld("corners", map(), config) {}

 private:
  static GridMap map() {
    return {.size = 11,
            .start_row = 5,
            .start_col = 5,
            .targets = {{{0, 0, 0, 0, 0, 0},
                         {10, 10, 10, 10, 10, 10},
                         {10, 10, 0, 0, 10, 0},
                         {0, 0, 10, 10, 0, 10}}}};
  }
};

}  // namespace flotilla::classic
