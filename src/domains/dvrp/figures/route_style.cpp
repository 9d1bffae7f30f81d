#include "flotilla/domains/dvrp/figures/route_style.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace flotilla::dvrp::route_style {
namespace {

constexpr double kTextMiddle = 0.35;  // of small letters, above the base line, in units of the size
constexpr double kMark = 3.1;         // half of a mark's width

constexpr std::array<const char*, 9> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#8a6d00", "#56b4e9",
                                                 "#882255", "#332288", "#666666"};

}  // namespace

const char* colour_of(size_t vehicle) { return kColours[vehicle % kColours.size()]; }

const char* dash_of(size_t vehicle) { return vehicle / kColours.size() % 2 == 0 ? "" : "3.5 1.8"; }

svg::Paint pickup_paint(const char* colour) { return {.fill = colour, .opacity = 0.38}; }

svg::Paint dropoff_paint(const char* colour) {
  return {.stroke = colour, .width = 0.7, .fill = "#ffffff"};
}

std::string clock(double minutes) {
  const auto whole = static_cast<int>(std::lround(minutes));
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

void draw_text(svg::Drawing& drawing, double x, double middle, std::string_view text,
               const svg::TextStyle& style) {
  drawing.text({x, middle + kTextMiddle * style.size}, text, style);
}

void draw_stop(svg::Drawing& drawing, svg::Point at, bool pickup, const char* colour) {
  const double tip = pickup ? -kMark : kMark;
  const std::array<svg::Point, 3> corners = {{{at.x, at.y + 1.1 * tip},
                                              {at.x - kMark, at.y - 0.7 * tip},
                                              {at.x + kMark, at.y - 0.7 * tip}}};
  drawing.polygon(corners, {.stroke = colour, .width = 0.9, .fill = pickup ? colour : "#ffffff"});
}

void draw_depot(svg::Drawing& drawing, svg::Point at) {
  drawing.rect({at.x - 4, at.y - 4, 8, 8}, {.stroke = "#ffffff", .width = 0.8, .fill = kInk});
}

std::vector<VehicleDay> vehicle_days(const Instance& instance, const Routes& routes) {
  std::vector<VehicleDay> days;
  for (const RouteView route : routes) {
    if (route.empty()) continue;
    days.push_back(
        {schedule_of(instance, route), cost_of(instance, {Route(route.begin(), route.end())})});
  }
  std::ranges::stable_sort(days, {}, [](const VehicleDay& day) { return day.stops[1].service; });
  return days;
}

}  // namespace flotilla::dvrp::route_style
