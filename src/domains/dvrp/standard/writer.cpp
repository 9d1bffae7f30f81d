#include "flotilla/domains/dvrp/standard/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "flotilla/domains/dvrp/figures/city_map.h"

namespace flotilla::dvrp::standard {
namespace {

// In the order of the file: the depot, the pickups, the drop-offs.
std::vector<int> nodes_in_order(const Instance& instance) {
  std::vector<int> nodes = {0};
  const auto requests = static_cast<int>(instance.requests.size());
  for (int k = 0; k < requests; ++k) nodes.push_back(Instance::pickup_of(k));
  for (int k = 0; k < requests; ++k) nodes.push_back(Instance::pickup_of(k) + 1);
  return nodes;
}

int64_t seconds_of(float minutes) { return std::llround(static_cast<double>(minutes) * 60); }

// In the order of the requests; no ride is longer than the day.
std::vector<double> longest_rides(const Instance& instance) {
  std::vector<double> rides;
  for (int k = 0; k < static_cast<int>(instance.requests.size()); ++k) {
    rides.push_back(std::min(instance.longest_ride_s(Instance::pickup_of(k) + 1),
                             static_cast<double>(seconds_of(kDay))));
  }
  return rides;
}

}  // namespace

std::string cordeau_text(const Instance& instance) {
  const std::vector<int> nodes = nodes_in_order(instance);
  std::vector<int> cells;
  for (const int node : nodes) cells.push_back(instance.cell(node));
  const CityMap map = map_of(*instance.city, cells);
  const MapPoint depot = *map.places[static_cast<size_t>(cells.front())];
  const int64_t day = seconds_of(kDay);
  // A solver that reads this file alone keeps at least a limit that all have.
  std::string text =
      fmt::format("{} {} {} {} {}\n", instance.requests.size(), 2 * instance.requests.size(), day,
                  kCapacity, std::ranges::max(longest_rides(instance)));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const MapPoint place = *map.places[static_cast<size_t>(cells[i])];
    const Window window = instance.window(nodes[i]);
    const int load = i == 0 ? 0 : Instance::is_pickup(nodes[i]) ? 1 : -1;
    fmt::format_to(std::back_inserter(text), "{} {:.3f} {:.3f} 0 {} {} {}\n", i, place.x - depot.x,
                   place.y - depot.y, load, seconds_of(window.early), seconds_of(window.late));
  }
  return text;
}

std::string times_text(const Instance& instance) {
  const std::vector<int> nodes = nodes_in_order(instance);
  std::string text;
  for (const int from : nodes) {
    for (const int to : nodes) {
      const int64_t seconds = instance.city->seconds(instance.cell(from), instance.cell(to));
      fmt::format_to(std::back_inserter(text), "{}{}", to == 0 ? "" : " ", seconds);
    }
    text += '\n';
  }
  return text;
}

std::string rides_text(const Instance& instance) {
  std::string text;
  if (!(instance.limits.excess < kUnlimited)) return text;
  for (const double ride : longest_rides(instance)) text += fmt::format("{}\n", ride);
  return text;
}

}  // namespace flotilla::dvrp::standard
