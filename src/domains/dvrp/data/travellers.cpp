#include "flotilla/domains/dvrp/data/travellers.h"

#include <fmt/format.h>

#include <algorithm>

namespace flotilla::dvrp {

const std::array<const char*, kFlexibilities> kFlexibilityTexts = {
    "flexible for late dropoff, but inflexible for early pickup",
    "flexible for early pickup, but inflexible for late dropoff",
    "inflexible for any schedule changes", "flexible for both early pickup and late dropoff"};

std::bitset<kActions> accepts_within(int earlier_minutes, int later_minutes) {
  std::bitset<kActions> accepts;
  for (int action = 0; action < kActions; ++action) {
    const Shift shift = shift_of(action);
    accepts[static_cast<size_t>(action)] =
        shift.pickup <= earlier_minutes && shift.dropoff <= later_minutes;
  }
  return accepts;
}

std::array<std::bitset<kActions>, kFlexibilities> accepts_by_rule() {
  constexpr int kAny = kShiftMinutes.back();
  return {accepts_within(0, kAny), accepts_within(kAny, 0), accepts_within(0, 0),
          accepts_within(kAny, kAny)};
}

Travellers gathered(std::vector<Trip> trips) {
  Travellers travellers{.count = 0, .trips = std::move(trips), .trips_of = {}};
  for (const Trip& trip : travellers.trips) {
    travellers.count = std::max(travellers.count, trip.traveller + 1);
  }
  travellers.trips_of.resize(static_cast<size_t>(travellers.count));
  for (size_t i = 0; i < travellers.trips.size(); ++i) {
    travellers.trips_of[static_cast<size_t>(travellers.trips[i].traveller)].push_back(
        static_cast<int>(i));
  }
  return travellers;
}

std::vector<std::string> infeasible_rows(const Travellers& travellers, const City& city) {
  std::vector<std::string> rows;
  constexpr auto kMost = static_cast<float>(kShiftMinutes.back());
  for (size_t i = 0; i < travellers.trips.size(); ++i) {
    const Trip& trip = travellers.trips[i];
    const float out = city.minutes(city.depot(), trip.origin);
    const float way = city.minutes(trip.origin, trip.destination);
    const float back = city.minutes(trip.destination, city.depot());
    const auto say = [&](const std::string& what) {
      const std::string line = trip.line > 0 ? fmt::format(" in line {}", trip.line) : "";
      rows.push_back(
          fmt::format("trip {}{}, of traveller {}: {}", i + 1, line, trip.traveller + 1, what));
    };
    if (trip.pickup.late - kMost < out) {
      say(fmt::format("its pickup, 30 minutes earlier, is {:.1f} minutes from the depot", out));
    } else if (std::max(out, trip.pickup.early) + way > trip.dropoff.late) {
      say(fmt::format("the way takes {:.1f} minutes, longer than its windows allow", way));
    } else if (trip.dropoff.late + kMost + back > kDay) {
      say("its drop-off, 30 minutes later, leaves no time for the way to the depot");
    }
  }
  return rows;
}

}  // namespace flotilla::dvrp
