// The right panel of a picture of routes: when each vehicle does what, and the windows of each
// request.
#pragma once

#include <vector>

#include "flotilla/domains/dvrp/data/data.h"
#include "flotilla/domains/dvrp/data/instance.h"
#include "flotilla/domains/dvrp/figures/route_style.h"

namespace flotilla::dvrp {

// What it needs, without the axis.
double timetable_height(size_t requests, size_t vehicles);

// Rows are higher where they are few. REQUIRES: the tours are of the instance, and that of the
// data.
void draw_timetable(svg::Drawing& drawing, const Data& data, const Instance& instance,
                    const std::vector<route_style::VehicleDay>& tours, svg::Point top_left,
                    double height);

}  // namespace flotilla::dvrp
