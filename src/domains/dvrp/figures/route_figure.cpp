#include "flotilla/domains/dvrp/figures/route_figure.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/figures/route_map.h"
#include "flotilla/domains/dvrp/figures/route_style.h"
#include "flotilla/domains/dvrp/figures/route_timetable.h"
#include "flotilla/domains/dvrp/routing/ride_schedule.h"

namespace flotilla::dvrp {
namespace {

using namespace route_style;

constexpr double kTitleSize = 11.5, kTitleHeight = 24;
constexpr double kLeastHeight = 300, kPanelGap = 14;
constexpr double kTimeLegendHeight = 20;

void draw_time_legend(svg::Drawing& drawing, double x, double y) {
  const char* colour = colour_of(0);
  const auto tick = [&](double at) {
    drawing.line({at, y - 2.6}, {at, y + 2.6}, {.stroke = kInk, .width = 1.3});
  };
  x = draw_entry(drawing, x, y, 14, "drives, waits", [&](double at) {
    drawing.line({at, y}, {at + 8, y}, {.stroke = colour, .width = 3.4});
    drawing.line({at + 8, y}, {at + 14, y}, {.stroke = colour, .width = 0.7});
  });
  x = draw_entry(drawing, x, y, 14, "pickup window", [&](double at) {
    drawing.rect({at, y - kBar / 2, 14, kBar}, pickup_paint(colour));
  });
  x = draw_entry(drawing, x, y, 14, "drop-off window", [&](double at) {
    drawing.rect({at, y - kBar / 2, 14, kBar}, dropoff_paint(colour));
  });
  draw_entry(drawing, x, y, 14, "pickup to drop-off", [&](double at) {
    drawing.line({at, y}, {at + 14, y}, {.stroke = kInk, .width = 0.7});
    tick(at);
    tick(at + 14);
  });
}

}  // namespace

std::vector<Stop> schedule_of(const Instance& instance, RouteView route) {
  const auto way = [&instance](int from, int to) { return instance.seconds(from, to) / 60; };
  RideSchedule limited(instance);
  if (limited.limited()) limited.follow(route);
  const auto earliest = [&](int node, size_t place) {
    if (limited.limited()) return limited.minutes(place);
    return static_cast<double>(instance.window(node).early);
  };
  const double out = way(0, route.front());
  const double start = std::max(0.0, earliest(route.front(), 1) - out);
  std::vector<Stop> stops = {{.node = 0, .arrival = start, .service = start}};
  const auto drive_to = [&](int node) {
    const double arrival = stops.back().service + way(stops.back().node, node);
    stops.push_back({.node = node,
                     .arrival = arrival,
                     .service = std::max(arrival, earliest(node, stops.size()))});
  };
  for (const int node : route) drive_to(node);
  drive_to(0);
  return stops;
}

std::string routes_svg(const Data& data, const Instance& instance, const Routes& routes) {
  const std::vector<VehicleDay> tours = vehicle_days(instance, routes);
  const double height =
      std::max(kLeastHeight, timetable_height(instance.requests.size(), tours.size()));
  const std::string title = fmt::format(
      "{} in {}, {:.1f} minutes of travel",
      counted(static_cast<int64_t>(instance.requests.size()), "request"),
      counted(static_cast<int64_t>(tours.size()), "vehicle"), cost_of(instance, routes));
  const double top = kEdge + kTitleHeight, right = kEdge + kMapWidth + kPanelGap;
  const double width = right + kLabelWidth + kTimeWidth + 2 * kEdge;
  svg::Drawing drawing(width, top + height + kAxisHeight + kTimeLegendHeight + kEdge, title);
  drawing.text({width / 2, kEdge + kTitleSize}, title,
               {.size = kTitleSize, .anchor = svg::Anchor::kMiddle, .bold = true});
  draw_route_map(drawing, instance, tours, {kEdge, top, kMapWidth, height});
  draw_timetable(drawing, data, instance, tours, {right, top}, height);
  const double legend = top + height + kAxisHeight + kTimeLegendHeight / 2;
  draw_map_legend(drawing, kEdge, legend);
  draw_time_legend(drawing, right + 20, legend);
  return drawing.str();
}

}  // namespace flotilla::dvrp
