#include "flotilla/domains/dvrp/negotiation/trim.h"

#include <utility>

namespace flotilla::dvrp {
namespace {

// The smallest shift that makes the one of the other; at the ends of the day several do.
uint8_t action_between(const Request& asked, const Request& granted, Granting granting) {
  int least = -1;
  for (int action = 0; action < kActions; ++action) {
    const bool smaller = least < 0 || minutes_of(action) < minutes_of(least);
    if (smaller && shifted(asked, shift_of(action), granting) == granted) least = action;
  }
  return static_cast<uint8_t>(least);
}

}  // namespace

Trimmed trim(const Instance& asked, Instance granted, const Travellers& travellers,
             const Routes& routes, Granting granting) {
  Trimmed day{.granted = std::move(granted), .actions = {}};
  for (size_t i = 0; i < asked.requests.size(); ++i) {
    day.actions.push_back(action_between(asked.requests[i], day.granted.requests[i], granting));
  }
  const auto ask_less = [&](size_t i) {
    Request& request = day.granted.requests[i];
    const Trip& trip = travellers.trips[static_cast<size_t>(request.trip)];
    Request smallest = request;
    uint8_t least = day.actions[i];
    for (int action = 0; action < kActions; ++action) {
      const bool accepted = action == kNoShift || trip.accepted(action);
      if (!accepted || minutes_of(action) >= minutes_of(least)) continue;
      request = shifted(asked.requests[i], shift_of(action), granting);
      if (!fault_of(day.granted, routes).empty()) continue;
      least = static_cast<uint8_t>(action);
      smallest = request;
    }
    request = smallest;
    return std::exchange(day.actions[i], least) != least;
  };
  for (bool less = true; less;) {
    less = false;
    for (size_t i = 0; i < asked.requests.size(); ++i) less = ask_less(i) || less;
  }
  return day;
}

}  // namespace flotilla::dvrp
