#include "flotilla/domains/dvrp/negotiation/kept_routes.h"

namespace flotilla::dvrp {

void keep_routes(const Routes& routes, KeptRoutes<kMostCustomers>& kept) {
  kept.stops = 0;
  const auto put = [&kept](int node) {
    kept.stop[static_cast<size_t>(kept.stops++)] = static_cast<uint16_t>(node);
  };
  for (const RouteView route : routes) {
    if (route.empty()) continue;
    for (const int node : route) put(node);
    put(0);
  }
}

void read_routes(const KeptRoutes<kMostCustomers>& kept, Routes& routes) {
  routes.clear();
  const std::span<const uint16_t> nodes = kept.nodes();
  for (const uint16_t node : nodes) {
    if (node == 0) {
      routes.end_route();
    } else {
      routes.add_node(node);
    }
  }
  if (!nodes.empty() && nodes.back() != 0) routes.end_route();
}

}  // namespace flotilla::dvrp
