// What the panels of a picture of routes share: sizes, colours and marks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flotilla/domains/dvrp/figures/route_figure.h"
#include "flotilla/report/svg.h"

namespace flotilla::dvrp::route_style {

constexpr double kEdge = 8;  // around a figure
constexpr double kTextSize = 8, kSmallSize = 7, kAxisHeight = 16;
constexpr double kMapWidth = 330, kLabelWidth = 118, kTimeWidth = 352;
constexpr double kBar = 3.6;  // height of a window

constexpr const char* kFrameColour = "#888888";
constexpr const char* kGridColour = "#e6e6e6";
constexpr const char* kCellColour = "#f1f1f1";
constexpr const char* kCellEdge = "#c9c9c9";
constexpr const char* kInk = "#222222";

// Told apart by colour-blind readers; behind the last one they begin anew, dashed.
const char* colour_of(size_t vehicle);
const char* dash_of(size_t vehicle);

svg::Paint pickup_paint(const char* colour);  // of windows
svg::Paint dropoff_paint(const char* colour);

std::string clock(double minutes);  // "07:30"

// `middle`: of small letters.
void draw_text(svg::Drawing& drawing, double x, double middle, std::string_view text,
               const svg::TextStyle& style);
// Up: a pickup, filled. Down: a drop-off, hollow.
void draw_stop(svg::Drawing& drawing, svg::Point at, bool pickup, const char* colour);
void draw_depot(svg::Drawing& drawing, svg::Point at);

// Draws what stands in front of a text in a legend, from `x` on, and returns where the next entry
// begins.
template <class Sample>
double draw_entry(svg::Drawing& drawing, double x, double y, double width, std::string_view text,
                  const Sample& sample) {
  sample(x);
  draw_text(drawing, x + width + 4, y, text, {.size = kTextSize});
  return x + width + 4 + svg::text_width(text, kTextSize) + 12;
}

// One vehicle's day.
struct VehicleDay {
  std::vector<Stop> stops;
  double minutes = 0;  // of travel
};
// In the order of their first pickups.
std::vector<VehicleDay> vehicle_days(const Instance& instance, const Routes& routes);

}  // namespace flotilla::dvrp::route_style
