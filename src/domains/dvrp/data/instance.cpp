#include "flotilla/domains/dvrp/data/instance.h"

#include <algorithm>

namespace flotilla::dvrp {
namespace {

Window moved(Window window, float minutes) {
  const float width = window.late - window.early;
  const float early = std::clamp(window.early + minutes, 0.0F, kDay - width);
  return {early, early + width};
}

}  // namespace

Request request_for(const Travellers& travellers, int trip) {
  const Trip& chosen = travellers.trips[static_cast<size_t>(trip)];
  return {.trip = trip,
          .origin = chosen.origin,
          .destination = chosen.destination,
          .pickup = chosen.pickup,
          .dropoff = chosen.dropoff};
}

Request shifted(Request request, Shift shift, Granting granting) {
  const Window pickup = moved(request.pickup, -static_cast<float>(shift.pickup));
  const Window dropoff = moved(request.dropoff, static_cast<float>(shift.dropoff));
  if (granting == Granting::kWiden) {
    request.pickup.early = pickup.early;
    request.dropoff.late = dropoff.late;
  } else {
    request.pickup = pickup;
    request.dropoff = dropoff;
  }
  return request;
}

// Fisher and Yates: the n-th draw exchanges the traveller at place n with one behind it. Who is at
// a place follows from the places drawn before, so that nobody has to be lined up.
int TripDraw::next(Rng& rng) {
  const auto left = static_cast<uint32_t>(travellers_.count) - static_cast<uint32_t>(drawn_);
  int traveller = static_cast<int>(drawn_ + rng.below(left));
  places_[drawn_] = traveller;
  for (size_t n = drawn_; n-- > 0;) {
    if (traveller == places_[n]) traveller = static_cast<int>(n);
  }
  ++drawn_;
  const std::vector<int>& trips = travellers_.trips_of[static_cast<size_t>(traveller)];
  return trips[rng.below(static_cast<uint32_t>(trips.size()))];
}

Instance draw_instance(const Data& data, int customers, Rng& rng) {
  std::vector<int> memory(static_cast<size_t>(customers));
  TripDraw draw(data.travellers, memory);
  Instance instance{.city = &data.city, .requests = {}};
  for (int i = 0; i < customers; ++i) {
    instance.requests.push_back(request_for(data.travellers, draw.next(rng)));
  }
  return instance;
}

}  // namespace flotilla::dvrp
