#include "flotilla/domains/dvrp/figures/route_timetable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "flotilla/core/text.h"

namespace flotilla::dvrp {
namespace {

using namespace route_style;

constexpr double kRow = 10.5, kVehicleRow = 14, kVehicleGap = 4;

class Timetable {
 public:
  Timetable(const Data& data, const Instance& instance, const std::vector<VehicleDay>& tours,
            svg::Point top_left, double height)
      : data_(data), instance_(instance), tours_(tours), top_left_(top_left) {
    stretch_ = std::clamp(height / timetable_height(instance.requests.size(), tours.size()), 1.0,
                          kMostStretch);
    double first = tours.empty() ? 0 : kDay, last = tours.empty() ? kDay : 0;
    for (const VehicleDay& tour : tours) {
      first = std::min(first, tour.stops.front().service);
      last = std::max(last, tour.stops.back().service);
    }
    for (int node = 1; node < instance.nodes(); ++node) {
      first = std::min(first, static_cast<double>(instance.window(node).early));
      last = std::max(last, static_cast<double>(instance.window(node).late));
    }
    first_ = 60 * std::floor(first / 60);
    last_ = std::max(first_ + 60, 60 * std::ceil(last / 60));
  }

  void draw(svg::Drawing& drawing, double height) const {
    draw_axis(drawing, height);
    double y = top_left_.y + 2;
    for (size_t vehicle = 0; vehicle < tours_.size(); ++vehicle) {
      draw_vehicle(drawing, vehicle, y + stretch_ * kVehicleRow / 2);
      y += stretch_ * kVehicleRow;
      for (const Stop& stop : tours_[vehicle].stops) {
        if (stop.node == 0 || !Instance::is_pickup(stop.node)) continue;
        draw_request(drawing, vehicle, stop, y + stretch_ * kRow / 2);
        y += stretch_ * kRow;
      }
      y += stretch_ * kVehicleGap;
    }
  }

 private:
  static constexpr double kMostStretch = 1.6;
  double bar() const { return kBar * std::min(stretch_, 1.3); }
  double left() const { return top_left_.x + kLabelWidth; }
  double x(double minutes) const {
    return left() + kTimeWidth * (minutes - first_) / (last_ - first_);
  }

  void draw_axis(svg::Drawing& drawing, double height) const {
    const double bottom = top_left_.y + height;
    double step = 60;
    while ((last_ - first_) / step > 9) step += 60;
    for (double time = first_; time <= last_; time += 60) {
      const bool labelled = std::fmod(time, step) == 0;
      drawing.line({x(time), top_left_.y}, {x(time), bottom},
                   {.stroke = kGridColour, .width = labelled ? 0.8 : 0.4});
      if (!labelled) continue;
      drawing.text({x(time), bottom + 4 + 0.8 * kTextSize}, clock(time),
                   {.size = kTextSize, .anchor = svg::Anchor::kMiddle});
    }
    drawing.rect({left(), top_left_.y, kTimeWidth, height}, {.stroke = kFrameColour, .width = 0.8});
  }

  // Thick where it drives, thin where it waits.
  void draw_vehicle(svg::Drawing& drawing, size_t vehicle, double middle) const {
    const VehicleDay& tour = tours_[vehicle];
    const char* colour = colour_of(vehicle);
    const size_t requests = tour.stops.size() / 2 - 1;
    drawing.begin_titled(fmt::format("vehicle {}: {}, {:.1f} minutes of travel", vehicle + 1,
                                     counted(static_cast<int64_t>(requests), "request"),
                                     tour.minutes));
    draw_text(drawing, top_left_.x, middle, fmt::format("vehicle {}", vehicle + 1),
              {.size = kTextSize, .bold = true, .colour = colour});
    draw_text(drawing, left() - 5, middle, fmt::format("{:.0f} min", tour.minutes),
              {.size = kSmallSize, .anchor = svg::Anchor::kEnd, .colour = colour});
    for (size_t i = 1; i < tour.stops.size(); ++i) {
      const Stop &from = tour.stops[i - 1], &to = tour.stops[i];
      if (to.service > to.arrival) {
        drawing.line({x(to.arrival), middle}, {x(to.service), middle},
                     {.stroke = colour, .width = 0.7});
      }
      if (to.arrival > from.service) {
        drawing.line({x(from.service), middle}, {x(to.arrival), middle},
                     {.stroke = colour, .width = 3.4, .dash = dash_of(vehicle)});
      }
    }
    drawing.end();
  }

  void draw_request(svg::Drawing& drawing, size_t vehicle, const Stop& pickup,
                    double middle) const {
    const std::vector<Stop>& stops = tours_[vehicle].stops;
    const Stop& dropoff = *std::ranges::find(stops, pickup.node + 1, &Stop::node);
    const Request& request = instance_.request_at(pickup.node);
    const Trip& trip = data_.travellers.trips[static_cast<size_t>(request.trip)];
    const int number = Instance::request_of(pickup.node) + 1;
    const char* colour = colour_of(vehicle);
    drawing.begin_titled(fmt::format(
        "request {}: traveller {}, {}, {} to {}; pickup {}-{}, at {}; drop-off {}-{}, at {}",
        number, trip.traveller + 1, trip.purpose, trip.departure, trip.arrival,
        clock(request.pickup.early), clock(request.pickup.late), clock(pickup.service),
        clock(request.dropoff.early), clock(request.dropoff.late), clock(dropoff.service)));
    draw_text(drawing, top_left_.x + 15, middle, std::to_string(number),
              {.size = kSmallSize, .anchor = svg::Anchor::kEnd});
    draw_text(drawing, top_left_.x + 19, middle,
              svg::fitted(trip.departure + " - " + trip.arrival, kSmallSize, kLabelWidth - 24),
              {.size = kSmallSize, .colour = "#555555"});
    draw_window(drawing, request.pickup, middle - bar() - 0.2, pickup.service,
                pickup_paint(colour));
    draw_window(drawing, request.dropoff, middle + 0.2, dropoff.service, dropoff_paint(colour));
    drawing.line({x(pickup.service), middle}, {x(dropoff.service), middle},
                 {.stroke = kInk, .width = 0.7});
    drawing.end();
  }

  // The bar of a window and the tick of the moment.
  void draw_window(svg::Drawing& drawing, const Window& window, double top, double service,
                   const svg::Paint& paint) const {
    const auto early = static_cast<double>(window.early), late = static_cast<double>(window.late);
    drawing.rect({x(early), top, x(late) - x(early), bar()}, paint);
    drawing.line({x(service), top - 0.4}, {x(service), top + bar() + 0.4},
                 {.stroke = kInk, .width = 1.3});
  }

  const Data& data_;
  const Instance& instance_;
  const std::vector<VehicleDay>& tours_;
  const svg::Point top_left_;
  double first_ = 0, last_ = kDay;
  double stretch_ = 1;  // of rows, where they are few
};

}  // namespace

double timetable_height(size_t requests, size_t vehicles) {
  return static_cast<double>(vehicles) * (kVehicleRow + kVehicleGap) +
         kRow * static_cast<double>(requests) + 2;
}

void draw_timetable(svg::Drawing& drawing, const Data& data, const Instance& instance,
                    const std::vector<VehicleDay>& tours, svg::Point top_left, double height) {
  Timetable(data, instance, tours, top_left, height).draw(drawing, height);
}

}  // namespace flotilla::dvrp
