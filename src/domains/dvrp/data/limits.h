// How long a traveller may be on board: rules that no route may break, whatever it saves.
#pragma once

#include <algorithm>
#include <limits>

namespace flotilla::dvrp {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// In keys and options 0 minutes stand for no limit.
constexpr double limit_of(double minutes) { return minutes > 0 ? minutes : kUnlimited; }

struct Limits {
  double ride = kUnlimited;    // minutes from the pickup to the drop-off
  double excess = kUnlimited;  // minutes of these beyond the direct way

  bool any() const { return ride < kUnlimited || excess < kUnlimited; }
  // Of a traveller whose direct way takes so many seconds; in seconds, of which travel times are
  // whole.
  double longest_ride_s(double direct_s) const {
    return std::min(60 * ride, direct_s + 60 * excess);
  }
  bool operator==(const Limits&) const = default;
};

}  // namespace flotilla::dvrp
