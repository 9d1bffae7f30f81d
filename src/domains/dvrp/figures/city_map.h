// Where the cells of a city stand on paper: by their positions, or, where those are not known, so
// that ways that take long look long.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "flotilla/domains/dvrp/data/city.h"

namespace flotilla::dvrp {

struct MapPoint {
  double x = 0, y = 0;  // to the east and to the north: kilometres, or minutes
};

struct CityMap {
  std::vector<std::optional<MapPoint>> places;  // by cell; none: its position is not known
  bool of_positions = false;                    // kilometres; otherwise minutes of travel
};

// By positions if each of the `needed` cells has one. Otherwise by classical scaling (Torgerson,
// "Multidimensional scaling: I. Theory and method", 1952) of the mean travel times of both ways.
CityMap map_of(const City& city, std::span<const int> needed);

}  // namespace flotilla::dvrp
