// Shifts that nobody needs are taken back once the day is known: routes of a whole day can do with
// fewer and smaller ones than were granted request by request.
#pragma once

#include <cstdint>
#include <vector>

#include "flotilla/domains/dvrp/routing/routes.h"

namespace flotilla::dvrp {

struct Trimmed {
  Instance granted;
  std::vector<uint8_t> actions;  // by request: the shift that is left
};

// Every request gets the smallest shift that its traveller accepts and the routes can do with, none
// where they can; one after the other, until no shift can be made smaller alone. REQUIRES:
// `granted` are the requests of `asked`, some of them shifted, and the routes keep its rules.
Trimmed trim(const Instance& asked, Instance granted, const Travellers& travellers,
             const Routes& routes, Granting granting = Granting::kMove);

}  // namespace flotilla::dvrp
