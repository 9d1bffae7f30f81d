// Files of standard instances.
//
// Cordeau's dial-a-ride: `vehicles count route_limit seats ride_limit`, then for each stop
// `id x y service load earliest latest`. Stop 0 is the depot, request i is picked up at i and
// delivered at n + i; a last line may be the depot at the end.
//
// Li and Lim's pickup and delivery: `vehicles capacity speed`, then for each stop
// `id x y load earliest latest service pickup delivery`, where a pickup names its delivery and a
// delivery its pickup. Fewer vehicles come before less distance.
#pragma once

#include <optional>
#include <string>

#include "flotilla/domains/dvrp/standard/lines.h"
#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

// Whether a file looks like one of them rather than like JSON.
bool is_standard(const std::string& text);

// `times`: of the table beside it (times.h); none: distances are straight. `rides`: of the list
// beside it (rides.h); none: all have the same limit. Throws Error(kData) that names file and line,
// also for requests that no vehicle can serve, even alone.
Problem read_standard(const std::string& text, const std::string& path,
                      const std::optional<NamedText>& times = std::nullopt,
                      const std::optional<NamedText>& rides = std::nullopt);

}  // namespace flotilla::dvrp::standard
