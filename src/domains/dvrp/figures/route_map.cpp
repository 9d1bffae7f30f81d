#include "flotilla/domains/dvrp/figures/route_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "flotilla/domains/dvrp/figures/city_map.h"

namespace flotilla::dvrp {
namespace {

using namespace route_style;

class Map {
 public:
  Map(const Instance& instance, const std::vector<VehicleDay>& tours, const svg::Box& box)
      : instance_(instance), tours_(tours), box_(box) {
    std::vector<int> needed = {instance.city->depot()};  // for the routes
    for (int node = 1; node < instance.nodes(); ++node) needed.push_back(instance.cell(node));
    map_ = map_of(*instance.city, needed);
    count_stops();
    fit(needed);
    move_apart();
    place_stops();
  }

  void draw(svg::Drawing& drawing) const {
    drawing.rect(box_, {.stroke = kFrameColour, .width = 0.8});
    draw_cells(drawing);
    for (size_t vehicle = 0; vehicle < tours_.size(); ++vehicle) draw_way(drawing, vehicle);
    for (size_t vehicle = 0; vehicle < tours_.size(); ++vehicle) draw_stops(drawing, vehicle);
    draw_depot(drawing, at_[static_cast<size_t>(instance_.city->depot())]);
    draw_scale(drawing);
  }

 private:
  static constexpr double kLeastRadius = 5, kMargin = 30, kScaleHeight = 16;
  static constexpr double kSpacing = 4.6;    // of stops in a cell
  static constexpr double kDepotRadius = 7;  // of the room in its middle, for the depot

  // Of a disc that holds so many marks, in rings around the middle.
  double radius_for(int stops, bool depot) const {
    const double inner = depot ? kDepotRadius : 0;
    return stops == 0 ? kLeastRadius + inner / 2
                      : inner + spacing_ * std::sqrt(static_cast<double>(stops)) + 2.5;
  }

  void count_stops() {
    stops_in_.resize(map_.places.size());
    for (const VehicleDay& tour : tours_) {
      for (const Stop& stop : tour.stops) {
        if (stop.node != 0) ++stops_in_[cell_of(stop.node)];
      }
    }
    // So that the largest one fits in the box.
    const int most = std::max(1, std::ranges::max(stops_in_));
    spacing_ = std::min(kSpacing, (0.45 * box_.width - 2 * kDepotRadius) / std::sqrt(most));
    for (size_t cell = 0; cell < stops_in_.size(); ++cell) {
      radius_.push_back(radius_for(stops_in_[cell], is_depot(cell)));
    }
  }

  // The places that routes visit in the box, with one scale for both directions. Others are left
  // out where they are not in the box, too: far outskirts would make everything small.
  void fit(const std::vector<int>& visited) {
    double west = 1e9, east = -1e9, south = 1e9, north = -1e9;
    for (const int cell : visited) {
      const auto& place = map_.places[static_cast<size_t>(cell)];
      west = std::min(west, place->x);
      east = std::max(east, place->x);
      south = std::min(south, place->y);
      north = std::max(north, place->y);
    }
    // A kilometre or a minute at least, also where all routes stay in one cell.
    const double width = std::max(1.0, east - west), height = std::max(1.0, north - south);
    const double room = box_.height - kScaleHeight;
    scale_ = std::min((box_.width - 2 * kMargin) / width, (room - 2 * kMargin) / height);
    const svg::Point middle = {box_.x + box_.width / 2, box_.y + room / 2};
    for (size_t cell = 0; cell < map_.places.size(); ++cell) {
      auto& place = map_.places[cell];
      at_.push_back(place ? svg::Point{middle.x + scale_ * (place->x - (west + east) / 2),
                                       middle.y - scale_ * (place->y - (south + north) / 2)}
                          : middle);
      if (!is_inside(cell)) place.reset();
    }
  }

  // The room for a cell's middle.
  svg::Box room_of(size_t cell) const {
    const double margin = radius_[cell] + 4;
    return {box_.x + margin, box_.y + margin, box_.width - 2 * margin,
            box_.height - kScaleHeight - 2 * margin};
  }
  bool is_inside(size_t cell) const {
    const svg::Box room = room_of(cell);
    return stops_in_[cell] > 0 || is_depot(cell) ||
           (at_[cell].x >= room.x && at_[cell].x <= room.right() && at_[cell].y >= room.y &&
            at_[cell].y <= room.bottom());
  }
  void keep_inside(size_t cell) {
    const svg::Box room = room_of(cell);
    at_[cell].x = std::clamp(at_[cell].x, room.x, room.right());
    at_[cell].y = std::clamp(at_[cell].y, room.y, room.bottom());
  }

  void move_apart() {
    constexpr double kGap = 3;
    for (int round = 0; round < 200; ++round) {
      for (size_t a = 0; a < at_.size(); ++a) {
        for (size_t b = a + 1; b < at_.size(); ++b) {
          if (!map_.places[a] || !map_.places[b]) continue;
          push(a, b, radius_[a] + radius_[b] + kGap);
        }
      }
      for (size_t cell = 0; cell < at_.size(); ++cell) keep_inside(cell);
    }
  }

  void push(size_t a, size_t b, double least) {
    const double x = at_[b].x - at_[a].x, y = at_[b].y - at_[a].y;
    const double apart = std::hypot(x, y);
    if (apart >= least) return;
    const double step = 0.5 * (least - apart);
    // Two in the same place part to the left and to the right.
    const svg::Point way = apart > 1e-9 ? svg::Point{x / apart, y / apart} : svg::Point{1, 0};
    // The larger one moves less.
    const double part = radius_[b] / (radius_[a] + radius_[b]);
    at_[a].x -= step * part * way.x;
    at_[a].y -= step * part * way.y;
    at_[b].x += step * (1 - part) * way.x;
    at_[b].y += step * (1 - part) * way.y;
  }

  // Places in a cell by the golden angle, as seeds in a sunflower (Vogel, 1979), which fill a disc
  // evenly however many there are; then sorted by angle, so that each vehicle has a sector.
  std::vector<svg::Point> places_in(size_t cell) const {
    const int count = stops_in_[cell];
    std::vector<std::pair<double, double>> polar;  // angle, radius
    for (int i = 0; i < count; ++i) {
      const double ring = count == 1 ? 0 : spacing_ * std::sqrt(i + 0.5);
      const double angle = std::numbers::pi * (3 - std::sqrt(5.0)) * i;
      polar.emplace_back(std::fmod(angle, 2 * std::numbers::pi),
                         ring + (is_depot(cell) ? kDepotRadius : 0));
    }
    std::ranges::sort(polar);
    std::vector<svg::Point> places;
    for (const auto& [angle, ring] : polar) {
      places.push_back(
          {at_[cell].x + ring * std::cos(angle), at_[cell].y + ring * std::sin(angle)});
    }
    return places;
  }

  void place_stops() {
    std::vector<std::vector<svg::Point>> places;
    for (size_t cell = 0; cell < at_.size(); ++cell) places.push_back(places_in(cell));
    std::vector<size_t> placed(at_.size());
    stop_at_.resize(static_cast<size_t>(instance_.nodes()));
    for (const VehicleDay& tour : tours_) {
      for (const Stop& stop : tour.stops) {
        if (stop.node == 0) continue;
        const size_t cell = cell_of(stop.node);
        stop_at_[static_cast<size_t>(stop.node)] = places[cell][placed[cell]++];
      }
    }
  }

  void draw_cells(svg::Drawing& drawing) const {
    for (size_t cell = 0; cell < at_.size(); ++cell) {
      if (!map_.places[cell]) continue;
      drawing.begin_titled(fmt::format("{}{}", instance_.city->name(static_cast<int>(cell)),
                                       is_depot(cell) ? ", the depot" : ""));
      drawing.circle(at_[cell], radius_[cell],
                     {.stroke = kCellEdge, .width = 0.6, .fill = kCellColour});
      drawing.end();
    }
  }

  svg::Point place_of(int node) const {
    return node == 0 ? at_[static_cast<size_t>(instance_.city->depot())]
                     : stop_at_[static_cast<size_t>(node)];
  }

  void draw_way(svg::Drawing& drawing, size_t vehicle) const {
    const std::vector<Stop>& stops = tours_[vehicle].stops;
    for (size_t i = 1; i < stops.size(); ++i) {
      const svg::Point from = place_of(stops[i - 1].node), to = place_of(stops[i].node);
      draw_leg(drawing, from, to, vehicle);
    }
  }

  // Bent to the right, so that a way there and a way back stand side by side.
  static void draw_leg(svg::Drawing& drawing, svg::Point from, svg::Point to, size_t vehicle) {
    const double x = to.x - from.x, y = to.y - from.y, length = std::hypot(x, y);
    if (length < 1) return;
    constexpr int kPieces = 16;
    const double bend = std::min(0.12 * length, 14.0);
    const svg::Point over = {from.x + x / 2 - 2 * bend * y / length,
                             from.y + y / 2 + 2 * bend * x / length};
    std::vector<svg::Point> points;
    for (int i = 0; i <= kPieces; ++i) {
      const double t = static_cast<double>(i) / kPieces, s = 1 - t;
      points.push_back({s * s * from.x + 2 * s * t * over.x + t * t * to.x,
                        s * s * from.y + 2 * s * t * over.y + t * t * to.y});
    }
    const char* colour = colour_of(vehicle);
    drawing.polyline(points,
                     {.stroke = colour, .width = 1, .dash = dash_of(vehicle), .opacity = 0.8});
    if (length < 16) return;
    const svg::Point& tip = points[kPieces / 2];
    const double ux = x / length, uy = y / length;
    const std::array<svg::Point, 3> head = {
        {{tip.x + 4 * ux, tip.y + 4 * uy},
         {tip.x - 2 * ux - 2.4 * uy, tip.y - 2 * uy + 2.4 * ux},
         {tip.x - 2 * ux + 2.4 * uy, tip.y - 2 * uy - 2.4 * ux}}};
    drawing.polygon(head, {.fill = colour});
  }

  void draw_stops(svg::Drawing& drawing, size_t vehicle) const {
    for (const Stop& stop : tours_[vehicle].stops) {
      if (stop.node == 0) continue;
      const bool pickup = Instance::is_pickup(stop.node);
      drawing.begin_titled(
          fmt::format("{} of request {}, vehicle {}, {}", pickup ? "pickup" : "drop-off",
                      Instance::request_of(stop.node) + 1, vehicle + 1, clock(stop.service)));
      draw_stop(drawing, place_of(stop.node), pickup, colour_of(vehicle));
      drawing.end();
    }
  }

  // A round length of a fifth of the panel, more or less.
  void draw_scale(svg::Drawing& drawing) const {
    const double most = 0.3 * box_.width / scale_;
    double length = std::pow(10.0, std::floor(std::log10(most)));
    if (5 * length <= most) {
      length *= 5;
    } else if (2 * length <= most) {
      length *= 2;
    }
    const double y = box_.bottom() - 8, left = box_.x + 8, right = left + length * scale_;
    drawing.line({left, y}, {right, y}, {.stroke = kInk, .width = 1});
    for (const double x : {left, right}) {
      drawing.line({x, y - 2.5}, {x, y + 2.5}, {.stroke = kInk, .width = 1});
    }
    draw_text(drawing, right + 5, y,
              fmt::format("{:g} {}", length,
                          map_.of_positions ? "km" : "minutes (cells placed by travel times)"),
              {.size = kSmallSize});
  }

  size_t cell_of(int node) const { return static_cast<size_t>(instance_.cell(node)); }
  bool is_depot(size_t cell) const { return cell == static_cast<size_t>(instance_.city->depot()); }

  const Instance& instance_;
  const std::vector<VehicleDay>& tours_;
  const svg::Box box_;
  CityMap map_;
  double scale_ = 1, spacing_ = kSpacing;
  std::vector<int> stops_in_;        // by cell
  std::vector<double> radius_;       // by cell
  std::vector<svg::Point> at_;       // by cell
  std::vector<svg::Point> stop_at_;  // by node
};

}  // namespace

void draw_route_map(svg::Drawing& drawing, const Instance& instance,
                    const std::vector<VehicleDay>& tours, const svg::Box& box) {
  Map(instance, tours, box).draw(drawing);
}

double draw_map_legend(svg::Drawing& drawing, double x, double y) {
  const char* colour = colour_of(0);
  x = draw_entry(drawing, x, y, 8, "pickup", [&](double at) {
    draw_stop(drawing, {at + 4, y}, true, colour);
  });
  x = draw_entry(drawing, x, y, 8, "drop-off", [&](double at) {
    draw_stop(drawing, {at + 4, y}, false, colour);
  });
  x = draw_entry(drawing, x, y, 8, "depot", [&](double at) { draw_depot(drawing, {at + 4, y}); });
  return draw_entry(drawing, x, y, 10, "cell", [&](double at) {
    drawing.circle({at + 5, y}, 5, {.stroke = kCellEdge, .width = 0.6, .fill = kCellColour});
  });
}

}  // namespace flotilla::dvrp
