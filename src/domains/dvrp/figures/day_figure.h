// A picture of what a negotiation did to a day: the routes before and after it on two maps, and
// below them the windows of every request, as they were asked for and as they were granted.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

struct RoutedDay {
  const Instance& instance;
  const Routes& routes;
};

// A vehicle has the colour of the one that served most of the same requests before. REQUIRES: the
// same requests of `data` on both days, but for their windows, and routes that keep all rules.
// Determinism: the same arguments give the same bytes.
std::string day_svg(const Data& data, const RoutedDay& asked, const RoutedDay& granted);

}  // namespace flotilla::dvrp
