#include "flotilla/domains/dvrp/standard/times.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/domains/dvrp/standard/lines.h"

namespace flotilla::dvrp::standard {
namespace {

void check_row(const Lines& lines, const Line& line, size_t row, size_t stops) {
  if (line.fields.size() != stops) {
    lines.refuse(line,
                 fmt::format("{} times, the instance has {} stops", line.fields.size(), stops));
  }
  for (size_t to = 0; to < stops; ++to) {
    const double time = line.fields[to];
    if (time < 0 || (to == row && time != 0)) {
      lines.refuse(line,
                   fmt::format("column {}: a time of {}, where {} is expected", to + 1, time,
                               to == row ? "0 from a stop to itself" : "one that is not negative"));
    }
  }
}

constexpr double kRoundedBy = 1e-6;

struct Shortcuts {
  int64_t count = 0;  // triples of stops
  double most = 0;    // that the detour is shorter
};

Shortcuts shortcuts_of(const Problem& problem) {
  const size_t n = problem.stops.size();
  Shortcuts found;
  for (size_t i = 0; i < n; ++i) {
    const double* const direct = problem.distances.data() + i * n;
    for (size_t j = 0; j < n; ++j) {
      const double* const from_there = problem.distances.data() + j * n;
      const double there = direct[j];
      for (size_t k = 0; k < n; ++k) {
        const double longer = direct[k] - there - from_there[k];
        found.count += longer > kRoundedBy ? 1 : 0;
        found.most = std::max(found.most, longer);
      }
    }
  }
  return found;
}

}  // namespace

std::string times_path(const std::string& instance_path) {
  return path_beside(instance_path, ".times");
}

void set_times(Problem& problem, const std::string& text, const std::string& path) {
  const Lines lines(text, path);
  const size_t stops = problem.stops.size();
  if (lines.all().size() != stops) {
    throw Error(ErrorCode::kData, fmt::format("{}: {} rows, the instance has {} stops", path,
                                              lines.all().size(), stops));
  }
  for (size_t row = 0; row < stops; ++row) check_row(lines, lines.all()[row], row, stops);
  problem.distances.clear();
  for (const Stop& from : problem.stops) {
    const Line& line = lines.all()[static_cast<size_t>(from.id)];
    for (const Stop& to : problem.stops) {
      problem.distances.push_back(line.fields[static_cast<size_t>(to.id)]);
    }
  }
  if (const Shortcuts found = shortcuts_of(problem); found.count > 0) {
    log::warn("ways that are longer than a detour",
              {{"file", path},
               {"triples", std::to_string(found.count)},
               {"by_at_most", fmt::format("{:g}", found.most)}});
  }
}

}  // namespace flotilla::dvrp::standard
