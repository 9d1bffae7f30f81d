// Regions: visit the four 6 x 6 corner regions of a 20 x 20 grid from its middle.
#pragma once

#include "flotilla/domains/classic/grid_world.h"

namespace flotilla::classic {

class Regions : public GridWorld {
 public:
  static Schema schema() { return grid_schema(1000); }

  explicit Regions(const Config& config) : GridWorld("regions", map(), config) {}

 private:
  static GridMap map() {
    return {.size = 20,
            .start_row = 10,
            .start_col = 10,
            .targets = {{{0, 5, 0, 5, 2, 2},
                         {14, 19, 14, 19, 16, 16},
                         {14, 19, 0, 5, 16, 2},
                         {0, 5, 14, 19, 2, 16}}}};
  }
};

}  // namespace flotilla::classic
