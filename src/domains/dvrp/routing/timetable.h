// When a vehicle is where. For given stops all rules together say of pairs of times that one is at
// least so much after the other: windows, travel, rides, the length of the route. So there are
// earliest times that keep them all, or none; what makes a ride too long is answered by picking up
// later, which is what the eight-step schedule of Cordeau and Laporte (2003) does by slacks.
//
// Allocates: nothing.
#pragma once

#include <cstddef>
#include <span>

namespace flotilla::dvrp {

// Of times, in their unit: well below what checkers allow.
constexpr double kTimeRounding = 1e-9;

struct TimedStop {
  static constexpr size_t kNoRide = static_cast<size_t>(-1);

  double earliest, latest;  // at which service may begin
  double service;           // how long it takes
  double way;               // to here from the stop before
  size_t pickup;   // of a drop-off: the stop where its ride begins; kNoRide: none ends here
  double longest;  // that ride may be, from the end of service there until it begins here
  double time;     // at which service begins: what is found
  double least;    // that this can be, as far as the search knows
};

// The times of a vehicle that starts at the first stop and ends at the last one, at most `longest`
// later; false: there are none. In any unit of time. REQUIRES: pickups stand before their
// drop-offs.
bool find_times(std::span<TimedStop> stops, double longest);

}  // namespace flotilla::dvrp
