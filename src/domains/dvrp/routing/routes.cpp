#include "flotilla/domains/dvrp/routing/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "flotilla/domains/dvrp/routing/differences.h"

namespace flotilla::dvrp {
namespace {

struct Fault {
  enum class Kind : uint8_t {
    kNoNode,
    kLate,
    kTwice,
    kFull,
    kNotOnBoard,
    kNeverDroppedOff,
    kNotServed,
    kLongRide,
    kLongRides
  };
  Kind kind;
  int where;           // the node; of the kinds behind kLate, the request
  double reached = 0;  // minutes: of kLate; of kLongRide, that are allowed
  float late = 0;      // end of its window
  std::optional<size_t> route = std::nullopt;
};

std::string text_of(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kNoNode:
      return fmt::format("there is no node {}", fault.where);
    case Fault::Kind::kLate:
      return fmt::format("node {} is reached at {:.2f}, its window ends at {}", fault.where,
                         fault.reached, fault.late);
    case Fault::Kind::kTwice:
      return fmt::format("request {} is picked up twice", fault.where + 1);
    case Fault::Kind::kFull:
      return fmt::format("full at request {}", fault.where + 1);
    case Fault::Kind::kNotOnBoard:
      return fmt::format("request {} is dropped off without being on board", fault.where + 1);
    case Fault::Kind::kNeverDroppedOff:
      return fmt::format("request {} is never dropped off", fault.where + 1);
    case Fault::Kind::kNotServed:
      return fmt::format("request {} is not served", fault.where + 1);
    case Fault::Kind::kLongRide:
      return fmt::format(
          "request {} is on board for more than {:.2f} minutes, whenever it is served",
          fault.where + 1, fault.reached);
    case Fault::Kind::kLongRides:
      return "no times keep all windows and the limits of all rides";
  }
  return "";
}

// Follows one vehicle, on whole seconds: in floats, one that arrives in the last second of a window
// could be late by the sum of their roundings.
class Pursuit {
 public:
  Pursuit(const Instance& instance, std::vector<bool>& picked_up)
      : instance_(instance), picked_up_(picked_up) {}

  std::optional<Fault> follow(RouteView route) {
    for (const int node : route) {
      if (node <= 0 || node >= instance_.nodes()) return Fault{Fault::Kind::kNoNode, node};
      if (const std::optional<Fault> fault = drive_to(node)) return fault;
      if (const std::optional<Fault> fault = serve(node)) return fault;
    }
    if (passengers_ > 0) return Fault{Fault::Kind::kNeverDroppedOff, on_board_.front()};
    return drive_to(0);
  }

 private:
  std::optional<Fault> drive_to(int node) {
    seconds_ +=
        static_cast<double>(instance_.city->seconds(instance_.cell(at_), instance_.cell(node)));
    const Window window = instance_.window(node);
    if (seconds_ > window.late_s()) {
      return Fault{Fault::Kind::kLate, node, seconds_ / 60, window.late};
    }
    seconds_ = std::max(seconds_, window.early_s());
    at_ = node;
    return std::nullopt;
  }

  std::optional<Fault> serve(int node) {
    const int request = Instance::request_of(node);
    if (!Instance::is_pickup(node)) return drop_off(request);
    const auto index = static_cast<size_t>(request);
    if (picked_up_[index]) return Fault{Fault::Kind::kTwice, request};
    picked_up_[index] = true;
    if (passengers_ == kCapacity) return Fault{Fault::Kind::kFull, request};
    on_board_[passengers_++] = request;
    return std::nullopt;
  }

  std::optional<Fault> drop_off(int request) {
    const auto end = on_board_.begin() + static_cast<std::ptrdiff_t>(passengers_);
    const auto last = std::remove(on_board_.begin(), end, request);
    if (last == end) return Fault{Fault::Kind::kNotOnBoard, request};
    --passengers_;
    return std::nullopt;
  }

  const Instance& instance_;
  std::vector<bool>& picked_up_;  // by request
  std::array<int, kCapacity> on_board_ = {};
  size_t passengers_ = 0;
  int at_ = 0;
  double seconds_ = 0;
};

// A vehicle whose stops have no fault but perhaps that rides are too long: its times, in seconds,
// with the depot at both ends and behind that one fixed time, 0.
class RideRules {
 public:
  RideRules(const Instance& instance, RouteView route) : instance_(instance), route_(route) {
    int before = 0;
    for (size_t i = 0; i <= route.size() + 1; ++i) {
      const int node = i == 0 || i > route.size() ? 0 : route[i - 1];
      const Window window = instance.window(node);
      rules_.push_back({zero(), i, window.early_s()});
      rules_.push_back({i, zero(), -window.late_s()});
      if (i > 0) rules_.push_back({i - 1, i, instance.seconds(before, node)});
      before = node;
    }
  }

  std::optional<Fault> fault() {
    const size_t of_windows = rules_.size();
    for (const int node : route_) {
      if (Instance::is_pickup(node)) continue;
      add_ride(node);
      if (!can_be_kept()) {
        return Fault{Fault::Kind::kLongRide, Instance::request_of(node),
                     instance_.longest_ride_s(node) / 60};
      }
      rules_.resize(of_windows);
    }
    for (const int node : route_) {
      if (!Instance::is_pickup(node)) add_ride(node);
    }
    if (can_be_kept()) return std::nullopt;
    return Fault{Fault::Kind::kLongRides, 0};
  }

 private:
  static constexpr double kToleranceS = 60 * 1e-6;

  size_t zero() const { return route_.size() + 2; }
  void add_ride(int dropoff) {
    const auto place = [this](int node) {
      return static_cast<size_t>(std::ranges::find(route_, node) - route_.begin()) + 1;
    };
    rules_.push_back({place(dropoff), place(dropoff - 1), -instance_.longest_ride_s(dropoff)});
  }
  bool can_be_kept() const { return has_times(rules_, zero() + 1, kToleranceS); }

  const Instance& instance_;
  const RouteView route_;
  std::vector<Difference> rules_;
};

std::optional<Fault> find_fault(const Instance& instance, RouteView route,
                                std::vector<bool>& picked_up) {
  std::optional<Fault> fault = Pursuit(instance, picked_up).follow(route);
  if (fault || !instance.limits.any()) return fault;
  return RideRules(instance, route).fault();
}

std::optional<Fault> find_fault(const Instance& instance, const Routes& routes,
                                std::vector<bool>& picked_up) {
  picked_up.assign(instance.requests.size(), false);
  for (size_t i = 0; i < routes.size(); ++i) {
    std::optional<Fault> fault = find_fault(instance, routes[i], picked_up);
    if (!fault) continue;
    fault->route = i;
    return fault;
  }
  const auto missing = std::ranges::find(picked_up, false);
  if (missing == picked_up.end()) return std::nullopt;
  return Fault{Fault::Kind::kNotServed, static_cast<int>(missing - picked_up.begin())};
}

}  // namespace

double cost_of(const Instance& instance, const Routes& routes) {
  double minutes = 0;
  for (const RouteView route : routes) {
    int at = 0;
    for (const int node : route) {
      minutes += static_cast<double>(instance.minutes(at, node));
      at = node;
    }
    minutes += static_cast<double>(instance.minutes(at, 0));
  }
  return minutes;
}

std::string fault_of(const Instance& instance, const Routes& routes) {
  std::vector<bool> picked_up;
  const std::optional<Fault> fault = find_fault(instance, routes, picked_up);
  if (!fault) return "";
  const std::string text = text_of(*fault);
  return fault->route ? fmt::format("route {}: {}", *fault->route + 1, text) : text;
}

bool Inspector::passes(const Instance& instance, const Routes& routes) {
  return !find_fault(instance, routes, picked_up_);
}

}  // namespace flotilla::dvrp
