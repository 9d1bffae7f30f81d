#include "flotilla/domains/dvrp/figures/day_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/figures/route_map.h"
#include "flotilla/domains/dvrp/figures/route_style.h"

namespace flotilla::dvrp {
namespace {

using namespace route_style;

constexpr double kWidth = 820, kMapGap = 14, kMapHeight = 280;
constexpr double kHeadSize = 10.5, kHeadHeight = 20;
constexpr double kCaptionHeight = 24, kLegendHeight = 22;
constexpr double kDayRow = 11.5, kGroupGap = 5;
constexpr double kVehicleWidth = 46, kPlacesWidth = 128, kShiftWidth = 104;  // columns
constexpr const char* kAskedColour = "#d9d9d9";
constexpr const char* kShiftedRow = "#fff4d6";

// Without the transparency that windows have elsewhere: here others lie behind them.
svg::Paint granted_pickup_paint(const char* colour) { return {.fill = colour}; }

bool is_shifted(const Request& asked, const Request& granted) {
  return asked.pickup != granted.pickup || asked.dropoff != granted.dropoff;
}

std::set<int> requests_of(const VehicleDay& day) {
  std::set<int> requests;
  for (const Stop& stop : day.stops) {
    if (stop.node != 0) requests.insert(Instance::request_of(stop.node));
  }
  return requests;
}

size_t shared(const VehicleDay& a, const VehicleDay& b) {
  const std::set<int> of_a = requests_of(a), of_b = requests_of(b);
  return static_cast<size_t>(
      std::ranges::count_if(of_a, [&of_b](int request) { return of_b.contains(request); }));
}

// In the places of the vehicles that served most of the same requests, those with most first;
// others behind them. A place may stay empty.
std::vector<VehicleDay> matched(std::vector<VehicleDay> days,
                                const std::vector<VehicleDay>& before) {
  std::vector<VehicleDay> places(before.size());
  std::vector<bool> taken(before.size());
  while (!days.empty()) {
    size_t most = 0, day = 0, place = before.size();
    for (size_t d = 0; d < days.size(); ++d) {
      for (size_t b = 0; b < before.size(); ++b) {
        const size_t common = taken[b] ? 0 : shared(days[d], before[b]);
        if (common <= most) continue;
        most = common;
        day = d;
        place = b;
      }
    }
    if (place == before.size()) break;
    places[place] = std::move(days[day]);
    taken[place] = true;
    days.erase(days.begin() + static_cast<std::ptrdiff_t>(day));
  }
  for (VehicleDay& day : days) {
    const auto free = std::ranges::find(taken, false) - taken.begin();
    if (free == std::ssize(taken)) {
      places.push_back(std::move(day));
    } else {
      places[static_cast<size_t>(free)] = std::move(day);
      taken[static_cast<size_t>(free)] = true;
    }
  }
  return places;
}

std::string shift_text(const Request& asked, const Request& granted) {
  const float pickup = granted.pickup.early - asked.pickup.early;
  const float dropoff = granted.dropoff.late - asked.dropoff.late;  // also where windows widen
  if (pickup == 0) return fmt::format("drop-off {:+.0f}", dropoff);
  if (dropoff == 0) return fmt::format("pickup {:+.0f}", pickup);
  return fmt::format("pickup {:+.0f}, drop-off {:+.0f}", pickup, dropoff);
}

// The requests of one vehicle after the other, as they are granted, over what was asked for.
class Windows {
 public:
  Windows(const Data& data, const Instance& asked, const Instance& granted,
          const std::vector<VehicleDay>& days, double top)
      : data_(data), asked_(asked), granted_(granted), days_(days), top_(top) {
    double first = granted.requests.empty() ? 0 : kDay;
    double last = granted.requests.empty() ? kDay : 0;
    for (const Instance* instance : {&asked, &granted}) {
      for (const Request& request : instance->requests) {
        first = std::min(first, static_cast<double>(request.pickup.early));
        last = std::max(last, static_cast<double>(request.dropoff.late));
      }
    }
    first_ = 60 * std::floor(first / 60);
    last_ = std::max(first_ + 60, 60 * std::ceil(last / 60));
  }

  double height() const {
    const auto used =
        std::ranges::count_if(days_, [](const VehicleDay& day) { return !day.stops.empty(); });
    return kDayRow * static_cast<double>(granted_.requests.size()) +
           kGroupGap * static_cast<double>(used) + 2;
  }

  void draw(svg::Drawing& drawing) const {
    for_each_row([&](size_t, const Stop& pickup, double top, bool) { tint(drawing, pickup, top); });
    draw_axis(drawing);
    for_each_row([&](size_t vehicle, const Stop& pickup, double top, bool begins) {
      if (begins) draw_vehicle(drawing, vehicle, top + kDayRow / 2);
      draw_request(drawing, vehicle, pickup, top + kDayRow / 2);
    });
  }

 private:
  static constexpr double kLeft = kEdge + kVehicleWidth + kPlacesWidth;
  static constexpr double kTimes = kWidth - kVehicleWidth - kPlacesWidth - kShiftWidth;

  double x(double minutes) const { return kLeft + kTimes * (minutes - first_) / (last_ - first_); }
  double x(float minutes) const { return x(static_cast<double>(minutes)); }

  template <class Draw>
  void for_each_row(const Draw& draw) const {
    double top = top_ + 1 + kGroupGap / 2;
    for (size_t vehicle = 0; vehicle < days_.size(); ++vehicle) {
      bool begins = true;
      for (const Stop& stop : days_[vehicle].stops) {
        if (stop.node == 0 || !Instance::is_pickup(stop.node)) continue;
        draw(vehicle, stop, top, begins);
        begins = false;
        top += kDayRow;
      }
      if (!begins) top += kGroupGap;
    }
  }

  void tint(svg::Drawing& drawing, const Stop& pickup, double top) const {
    if (!is_shifted(asked_.request_at(pickup.node), granted_.request_at(pickup.node))) return;
    drawing.rect({kEdge + kVehicleWidth, top, kWidth - kVehicleWidth, kDayRow},
                 {.fill = kShiftedRow});
  }

  void draw_axis(svg::Drawing& drawing) const {
    const double bottom = top_ + height();
    for (double time = first_; time <= last_; time += 60) {
      drawing.line({x(time), top_}, {x(time), bottom}, {.stroke = kGridColour, .width = 0.6});
      drawing.text({x(time), bottom + 4 + 0.8 * kTextSize}, clock(time),
                   {.size = kTextSize, .anchor = svg::Anchor::kMiddle});
    }
    drawing.rect({kLeft, top_, kTimes, height()}, {.stroke = kFrameColour, .width = 0.8});
  }

  void draw_vehicle(svg::Drawing& drawing, size_t vehicle, double middle) const {
    draw_text(drawing, kEdge, middle, fmt::format("vehicle {}", vehicle + 1),
              {.size = kTextSize, .bold = true, .colour = colour_of(vehicle)});
  }

  void draw_request(svg::Drawing& drawing, size_t vehicle, const Stop& pickup,
                    double middle) const {
    const Stop& dropoff = *std::ranges::find(days_[vehicle].stops, pickup.node + 1, &Stop::node);
    const Request& asked = asked_.request_at(pickup.node);
    const Request& granted = granted_.request_at(pickup.node);
    drawing.begin_titled(title_of(pickup, dropoff));
    draw_label(drawing, pickup.node, middle);
    const char* colour = colour_of(vehicle);
    draw_window(drawing, asked.pickup, granted.pickup, middle - kBar - 0.4,
                granted_pickup_paint(colour));
    draw_window(drawing, asked.dropoff, granted.dropoff, middle + 0.4, dropoff_paint(colour));
    draw_tick(drawing, pickup.service, middle - kBar - 0.4);
    draw_tick(drawing, dropoff.service, middle + 0.4);
    drawing.line({x(pickup.service), middle}, {x(dropoff.service), middle},
                 {.stroke = kInk, .width = 0.7});
    drawing.end();
  }

  std::string title_of(const Stop& pickup, const Stop& dropoff) const {
    const Request& asked = asked_.request_at(pickup.node);
    const Request& granted = granted_.request_at(pickup.node);
    const auto window = [](const Window& w) { return clock(w.early) + "-" + clock(w.late); };
    const auto change = [&](const Window& from, const Window& to) {
      if (from == to) return window(to);
      const bool widens = to.early <= from.early && from.late <= to.late;
      return window(from) + (widens ? " widened to " : " moved to ") + window(to);
    };
    return fmt::format("request {}: pickup {}, at {}; drop-off {}, at {}",
                       Instance::request_of(pickup.node) + 1, change(asked.pickup, granted.pickup),
                       clock(pickup.service), change(asked.dropoff, granted.dropoff),
                       clock(dropoff.service));
  }

  void draw_label(svg::Drawing& drawing, int node, double middle) const {
    const Request& asked = asked_.request_at(node);
    const Request& granted = granted_.request_at(node);
    const bool moved = is_shifted(asked, granted);
    const Trip& trip = data_.travellers.trips[static_cast<size_t>(asked.trip)];
    const double left = kEdge + kVehicleWidth;
    draw_text(drawing, left + 13, middle, std::to_string(Instance::request_of(node) + 1),
              {.size = kSmallSize, .anchor = svg::Anchor::kEnd, .bold = moved});
    draw_text(drawing, left + 17, middle,
              svg::fitted(trip.departure + " - " + trip.arrival, kSmallSize, kPlacesWidth - 22),
              {.size = kSmallSize, .colour = "#555555"});
    if (!moved) return;
    draw_text(drawing, kLeft + kTimes + 5, middle, shift_text(asked, granted),
              {.size = kSmallSize, .bold = true});
  }

  // What was asked for is a little higher, so that it shows behind what was granted.
  void draw_window(svg::Drawing& drawing, const Window& asked, const Window& granted, double top,
                   const svg::Paint& paint) const {
    drawing.rect(
        {x(asked.early) - 0.8, top - 0.6, x(asked.late) - x(asked.early) + 1.6, kBar + 1.2},
        {.fill = kAskedColour});
    drawing.rect({x(granted.early), top, x(granted.late) - x(granted.early), kBar}, paint);
  }
  void draw_tick(svg::Drawing& drawing, double service, double top) const {
    drawing.line({x(service), top - 0.4}, {x(service), top + kBar + 0.4},
                 {.stroke = kInk, .width = 1.3});
  }

  const Data& data_;
  const Instance &asked_, &granted_;
  const std::vector<VehicleDay>& days_;
  const double top_;
  double first_ = 0, last_ = kDay;
};

void draw_window_legend(svg::Drawing& drawing, double x, double y) {
  const char* colour = colour_of(0);
  const auto bar = [&drawing, y](double at, const svg::Paint& paint) {
    drawing.rect({at, y - kBar / 2, 14, kBar}, paint);
  };
  x = draw_entry(drawing, x, y, 14, "window asked for",
                 [&](double at) { bar(at, {.fill = kAskedColour}); });
  x = draw_entry(drawing, x, y, 14, "pickup window granted",
                 [&](double at) { bar(at, granted_pickup_paint(colour)); });
  x = draw_entry(drawing, x, y, 14, "drop-off window granted",
                 [&](double at) { bar(at, dropoff_paint(colour)); });
  x = draw_entry(drawing, x, y, 14, "ride", [&](double at) {
    drawing.line({at, y}, {at + 14, y}, {.stroke = kInk, .width = 0.7});
    for (const double end : {at, at + 14}) {
      drawing.line({end, y - 2.6}, {end, y + 2.6}, {.stroke = kInk, .width = 1.3});
    }
  });
  draw_entry(drawing, x, y, 14, "shifted, by minutes", [&](double at) {
    drawing.rect({at, y - kDayRow / 2, 14, kDayRow}, {.fill = kShiftedRow});
  });
}

std::string head_of(const char* when, double cost, const std::vector<VehicleDay>& days) {
  const auto used =
      std::ranges::count_if(days, [](const VehicleDay& day) { return !day.stops.empty(); });
  return fmt::format("{}: {:.1f} minutes, {}", when, cost, counted(used, "vehicle"));
}

std::string caption_of(const RoutedDay& asked, const RoutedDay& granted) {
  const double before = cost_of(asked.instance, asked.routes);
  const double after = cost_of(granted.instance, granted.routes);
  int64_t shifts = 0;
  for (size_t i = 0; i < asked.instance.requests.size(); ++i) {
    shifts += is_shifted(asked.instance.requests[i], granted.instance.requests[i]);
  }
  return fmt::format("{} of {} accepted a shift; travel saved: {:.1f} minutes, {:.1f} %", shifts,
                     counted(std::ssize(asked.instance.requests), "traveller"), before - after,
                     before > 0 ? 100 * (before - after) / before : 0.0);
}

}  // namespace

std::string day_svg(const Data& data, const RoutedDay& asked, const RoutedDay& granted) {
  const std::vector<VehicleDay> before = vehicle_days(asked.instance, asked.routes);
  const std::vector<VehicleDay> after =
      matched(vehicle_days(granted.instance, granted.routes), before);
  const double maps = kEdge + kHeadHeight, map_legend = maps + kMapHeight + kLegendHeight / 2;
  const double top = maps + kMapHeight + kLegendHeight;
  const Windows windows(data, asked.instance, granted.instance, after, top);
  const double legend = top + windows.height() + kAxisHeight + kLegendHeight / 2;
  const double bottom = legend + kLegendHeight / 2 + kCaptionHeight;
  const std::string caption = caption_of(asked, granted);
  svg::Drawing drawing(kWidth + 2 * kEdge, bottom + kEdge, caption);

  const double width = (kWidth - kMapGap) / 2;
  const auto draw_map = [&](const char* when, const RoutedDay& day,
                            const std::vector<VehicleDay>& days, double left) {
    drawing.text({left + width / 2, kEdge + kHeadSize},
                 head_of(when, cost_of(day.instance, day.routes), days),
                 {.size = kHeadSize, .anchor = svg::Anchor::kMiddle, .bold = true});
    draw_route_map(drawing, day.instance, days, {left, maps, width, kMapHeight});
  };
  draw_map("As asked", asked, before, kEdge);
  draw_map("After negotiation", granted, after, kEdge + width + kMapGap);
  draw_map_legend(drawing, kEdge, map_legend);
  windows.draw(drawing);
  draw_window_legend(drawing, kEdge, legend);
  drawing.text({kEdge + kWidth / 2, bottom - 6}, caption,
               {.size = kHeadSize, .anchor = svg::Anchor::kMiddle});
  return drawing.str();
}

}  // namespace flotilla::dvrp
