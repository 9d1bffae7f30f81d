// A panel of a picture of routes: the city's cells, and every vehicle's way.
#pragma once

#include <vector>

#include "flotilla/domains/dvrp/data/instance.h"
#include "flotilla/domains/dvrp/figures/route_style.h"

namespace flotilla::dvrp {

// Stops in one cell stand around its middle, and cells that would cover each other are moved apart.
// REQUIRES: the tours are of the instance.
void draw_route_map(svg::Drawing& drawing, const Instance& instance,
                    const std::vector<route_style::VehicleDay>& tours, const svg::Box& box);
// In one line; `y` is its middle. Returns where another entry may begin.
double draw_map_legend(svg::Drawing& drawing, double x, double y);

}  // namespace flotilla::dvrp
