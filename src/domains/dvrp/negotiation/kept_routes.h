// Routes as the state of an environment keeps them, whose bytes are copied and saved.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

// Nodes, a 0 behind each route.
template <int kCustomers>
struct KeptRoutes {
  int32_t stops;
  std::array<uint16_t, 3 * size_t{kCustomers}> stop;

  std::span<const uint16_t> nodes() const {
    return std::span(stop).first(static_cast<size_t>(stops));
  }
};
void keep_routes(const Routes& routes, KeptRoutes<kMostCustomers>& kept);
// Allocates: nothing where `routes` have room.
void read_routes(const KeptRoutes<kMostCustomers>& kept, Routes& routes);

}  // namespace flotilla::dvrp
