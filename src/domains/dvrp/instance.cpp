#include "flotilla/domains/dvrp/instance.h"

#include <algorithm>
#include <numeric>

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

Request shifted(Request request, Shift shift) {
  request.pickup = moved(request.pickup, -static_cast<float>(shift.pickup));
  request.dropoff = moved(request.dropoff, static_cast<float>(shift.dropoff));
  return request;
}

Instance draw_instance(const Data& data, int customers, Rng& rng) {
  const Travellers& travellers = data.travellers;
  std::vector<int> order(static_cast<size_t>(travellers.count));
  std::iota(order.begin(), order.end(), 0);
  Instance instance{.city = &data.city, .requests = {}};
  for (size_t i = 0; i < static_cast<size_t>(customers); ++i) {
    // The next of those that are left: Fisher and Yates.
    const auto left = static_cast<uint32_t>(order.size() - i);
    std::swap(order[i], order[i + rng.below(left)]);
    const std::vector<int>& trips = travellers.trips_of[static_cast<size_t>(order[i])];
    const int trip = trips[rng.below(static_cast<uint32_t>(trips.size()))];
    instance.requests.push_back(request_for(travellers, trip));
  }
  return instance;
}

}  // namespace flotilla::dvrp
