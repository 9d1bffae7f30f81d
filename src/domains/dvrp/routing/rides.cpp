#include "flotilla/domains/dvrp/routing/rides.h"

#include <algorithm>
#include <vector>

namespace flotilla::dvrp {

Rides rides_of(const Instance& instance, const Routes& routes) {
  Rides rides;
  std::vector<double> picked_up(instance.requests.size());  // minutes of the day
  for (const RouteView route : routes) {
    double time = 0;
    int at = 0;
    for (const int node : route) {
      time = std::max(time + static_cast<double>(instance.minutes(at, node)),
                      static_cast<double>(instance.window(node).early));
      at = node;
      double& boarded = picked_up[static_cast<size_t>(Instance::request_of(node))];
      if (Instance::is_pickup(node)) {
        boarded = time;
        continue;
      }
      rides.on_board += time - boarded;
      rides.direct += static_cast<double>(instance.minutes(node - 1, node));
      ++rides.requests;
    }
  }
  return rides;
}

}  // namespace flotilla::dvrp
