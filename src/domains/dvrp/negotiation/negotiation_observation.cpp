// What the policy sees of a negotiation: the requests that are fixed, with their windows as they
// stand, and the one that asks now; and what it would cost to serve that one under each shift.
#include <algorithm>

#include "flotilla/domains/dvrp/negotiation/negotiation.h"
#include "flotilla/domains/dvrp/routing/detours.h"

namespace flotilla::dvrp {
namespace {

constexpr int kColumns = 6;  // pickup cell, its window, drop-off cell, its window
constexpr int kSlots = 48;   // of half an hour
constexpr float kSlotMinutes = 30;
constexpr float kLongestDetour = 120;  // minutes; what cannot be served is shown as this
constexpr float kDetourUnit = 30;

int slot_of(float minutes) {
  return std::clamp(static_cast<int>(minutes / kSlotMinutes), 0, kSlots - 1);
}

// The rows of the one-hot table that a request marks.
std::array<int, kColumns> marks_of(const Request& request, int cells) {
  const int times = 2 * cells;
  return {request.origin,
          cells + request.destination,
          times + slot_of(request.pickup.early),
          times + kSlots + slot_of(request.pickup.late),
          times + 2 * kSlots + slot_of(request.dropoff.early),
          times + 3 * kSlots + slot_of(request.dropoff.late)};
}

}  // namespace

ObsSpace Negotiation::observation_space() const {
  const int cells = data_->city.size();
  if (observation_ == Observation::kOneHot) {
    return ObsSpace::float32({2 * cells + 4 * kSlots, 2}, 0, static_cast<float>(customers_));
  }
  if (observation_ == Observation::kDetours) {
    const int marks = 2 * (2 * cells + 4 * kSlots);
    const float most = std::max(static_cast<float>(customers_), kLongestDetour / kDetourUnit);
    return ObsSpace::float32({marks + kActions}, -most, most);
  }
  const int rows = observation_ == Observation::kList ? customers_ + 1 : customers_;
  const float high = scale_ ? 1 : std::max(kDay, static_cast<float>(cells - 1));
  return ObsSpace::float32({rows, kColumns}, 0, high);
}

void Negotiation::observe(const State& s, ObsRow row) const {
  const std::span<float> out = row.f32();
  std::ranges::fill(out, 0.0F);
  switch (observation_) {
    case Observation::kList:
    case Observation::kDense:
      return observe_rows(s, out);
    case Observation::kOneHot:
      return observe_one_hot(s, out);
    case Observation::kDetours:
      observe_one_hot(s, out.first(out.size() - kActions));
      return observe_detours(s, out.last(kActions));
  }
}

void Negotiation::observe_rows(const State& s, std::span<float> out) const {
  const auto row = [out](size_t i) { return out.subspan(i * kColumns, kColumns); };
  for (int i = 0; i < s.fixed; ++i) write_row(granted(s, i), row(static_cast<size_t>(i)));
  // The last row is of the request that asks. In a dense one it is the last fixed one's in the end.
  if (s.fixed < customers_) write_row(asked(s, s.fixed), row(out.size() / kColumns - 1));
}

void Negotiation::write_row(const Request& request, std::span<float> out) const {
  const float cell = scale_ ? 1 / static_cast<float>(data_->city.size()) : 1;
  const float minute = scale_ ? 1 / kDay : 1;
  out[0] = cell * static_cast<float>(request.origin);
  out[1] = minute * request.pickup.early;
  out[2] = minute * request.pickup.late;
  out[3] = cell * static_cast<float>(request.destination);
  out[4] = minute * request.dropoff.early;
  out[5] = minute * request.dropoff.late;
}

// In the place of each shift what it saves against none; in that of none, what that one costs.
void Negotiation::observe_detours(const State& s, std::span<float> out) const {
  if (s.failed != 0 || s.fixed == customers_) return;
  Detours detours(data_->city, limits_);
  for (const uint16_t node : s.routes.nodes()) {
    if (node == 0) {
      detours.end_route();
    } else {
      detours.visit(granted(s, Instance::request_of(node)), node);
    }
  }
  std::array<float, kActions> minutes = detours_of_shifts(detours, asked(s, s.fixed), granting_);
  for (float& each : minutes) each = std::min(each, kLongestDetour);
  const float plain = minutes[kNoShift];
  for (size_t action = 0; action < kActions; ++action) {
    out[action] = (action == kNoShift ? plain : plain - minutes[action]) / kDetourUnit;
  }
}

void Negotiation::observe_one_hot(const State& s, std::span<float> out) const {
  const auto mark = [&](const Request& request, size_t column) {
    for (const int row : marks_of(request, data_->city.size())) {
      out[2 * static_cast<size_t>(row) + column] += 1;
    }
  };
  for (int i = 0; i < s.fixed; ++i) mark(granted(s, i), 0);
  if (s.fixed < customers_) mark(asked(s, s.fixed), 1);
}

}  // namespace flotilla::dvrp
