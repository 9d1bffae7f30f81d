// Rules on times, each of which says that one is at least so much after another; and whether there
// are times that keep them all. Slow and plain: checkers judge schedules by it.
#pragma once

#include <cstddef>
#include <span>

namespace flotilla::dvrp {

// time[later] is at least time[sooner] + gap.
struct Difference {
  size_t sooner, later;
  double gap;
};

// Of so many times, each of which may be off by the tolerance: none keep the rules where a chain of
// these leads back to its beginning with a gain.
bool has_times(std::span<const Difference> rules, size_t count, double tolerance);

}  // namespace flotilla::dvrp
