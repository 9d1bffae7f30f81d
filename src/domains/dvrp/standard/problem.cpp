#include "flotilla/domains/dvrp/standard/problem.h"

#include <cmath>

namespace flotilla::dvrp::standard {

void Problem::measure() {
  distances.clear();
  distances.reserve(stops.size() * stops.size());
  for (const Stop& from : stops) {
    for (const Stop& to : stops) {
      distances.push_back(
          std::sqrt((from.x - to.x) * (from.x - to.x) + (from.y - to.y) * (from.y - to.y)));
    }
  }
}

double length_of(const Problem& problem, RouteView route) {
  if (route.empty()) return 0;
  double length = 0;
  int at = 0;
  for (const int stop : route) {
    length += problem.distance(at, stop);
    at = stop;
  }
  return length + problem.distance(at, 0);
}

}  // namespace flotilla::dvrp::standard
