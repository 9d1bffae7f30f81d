#include "flotilla/domains/dvrp/standard/rides.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/standard/lines.h"

namespace flotilla::dvrp::standard {

std::string rides_path(const std::string& instance_path) {
  return path_beside(instance_path, ".rides");
}

void set_rides(Problem& problem, const std::string& text, const std::string& path) {
  const Lines lines(text, path);
  const auto requests = static_cast<size_t>(problem.requests());
  if (lines.all().size() != requests) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: {}, the instance has {}", path,
                            counted(static_cast<int64_t>(lines.all().size()), "line"),
                            counted(problem.requests(), "request")));
  }
  for (size_t request = 0; request < requests; ++request) {
    const Line& line = lines.all()[request];
    if (line.fields.size() != 1) {
      lines.refuse(line, fmt::format("expected one number, got {}", line.fields.size()));
    }
    const auto delivery = static_cast<size_t>(Problem::pickup_of(static_cast<int>(request)) + 1);
    problem.stops[delivery].longest_ride = lines.number(line, 0, "longest ride", 0);
  }
}

}  // namespace flotilla::dvrp::standard
