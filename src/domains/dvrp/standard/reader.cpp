#include "flotilla/domains/dvrp/standard/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/standard/rides.h"
#include "flotilla/domains/dvrp/standard/schedule.h"
#include "flotilla/domains/dvrp/standard/times.h"

namespace flotilla::dvrp::standard {
namespace {

void check_window(const Lines& lines, const Line& line, const Stop& stop) {
  if (stop.earliest > stop.latest) {
    lines.refuse(line, fmt::format("the window ends at {}, before it begins at {}", stop.latest,
                                   stop.earliest));
  }
}

// One behind the other: how a pickup and its delivery become stops of a request.
void add_request(const Lines& lines, const Problem& problem, const Line& line, const Stop& pickup,
                 const Stop& delivery, std::vector<Stop>& stops) {
  if (pickup.load <= 0 || pickup.load + delivery.load != 0) {
    lines.refuse(line, fmt::format("loads {} and {}: what gets on must get off", pickup.load,
                                   delivery.load));
  }
  if (pickup.load > problem.seats) {
    lines.refuse(line, fmt::format("a load of {}, vehicles have {}", pickup.load,
                                   counted(problem.seats, "seat")));
  }
  stops.push_back(pickup);
  stops.push_back(delivery);
}

Stop cordeau_stop(const Lines& lines, const Line& line) {
  if (line.fields.size() != 7) {
    lines.refuse(line, fmt::format("expected 7 numbers, got {}", line.fields.size()));
  }
  const Stop stop{.id = lines.whole(line, 0, "id", 0, static_cast<int>(kMostStops)),
                  .x = line.fields[1],
                  .y = line.fields[2],
                  .service = lines.number(line, 3, "service time", 0),
                  .load = lines.whole(line, 4, "load", -1000, 1000),
                  .earliest = line.fields[5],
                  .latest = line.fields[6]};
  check_window(lines, line, stop);
  return stop;
}

// The first line counts the requests, as in some files, the stops without the depot, as in most, or
// all lines of stops.
void check_count(const Lines& lines, size_t stops) {
  const Line& head = lines.all().front();
  const size_t requests = (stops - 1) / 2;
  if (requests == 0) return;  // which is refused as that
  const std::array counts = {requests, 2 * requests, stops};
  const auto is_stated = [&head](size_t count) {
    return head.fields[1] == static_cast<double>(count);
  };
  if (std::ranges::any_of(counts, is_stated)) return;
  lines.refuse(head, fmt::format("expected {} requests or {} stops, as there are, got {}",
                                 counts[0], counts[1], head.fields[1]));
}

Problem read_cordeau(const Lines& lines) {
  const Line& head = lines.all().front();
  Problem problem;
  problem.vehicles = lines.whole(head, 0, "vehicles", 1, 100'000);
  problem.route_limit = lines.number(head, 2, "route limit", 0);
  problem.seats = lines.whole(head, 3, "seats", 1, 1000);
  problem.ride_limit = lines.number(head, 4, "ride limit", 0);
  std::vector<Stop> all;
  for (const Line& line : lines.all().subspan(1)) {
    all.push_back(cordeau_stop(lines, line));
    if (all.back().id != static_cast<int>(all.size()) - 1) {
      lines.refuse(line, fmt::format("id {}: expected {}", all.back().id, all.size() - 1));
    }
  }
  // With the depot at the end, or without.
  const Stop &depot = all.front(), last = all.back();
  const bool returns = all.size() % 2 == 0;
  if (returns && last.load != 0) {
    lines.refuse(lines.all().back(), "an odd number of stops: a request lacks one");
  }
  problem.back_earliest = returns ? last.earliest : depot.earliest;
  problem.back_latest = returns ? last.latest : depot.latest;
  check_count(lines, all.size());
  const size_t requests = (all.size() - 1) / 2;
  problem.stops.push_back(depot);
  for (size_t i = 1; i <= requests; ++i) {
    add_request(lines, problem, lines.all()[i + 1], all[i], all[requests + i], problem.stops);
  }
  return problem;
}

Problem read_li_lim(const Lines& lines) {
  const Line& head = lines.all().front();
  Problem problem;
  problem.vehicles_first = true;
  problem.vehicles = lines.whole(head, 0, "vehicles", 1, 100'000);
  problem.seats = lines.whole(head, 1, "capacity", 1, 1'000'000);
  std::vector<Stop> all;
  std::vector<std::array<int, 2>> partners;
  const auto count = static_cast<int>(lines.all().size() - 1);
  for (const Line& line : lines.all().subspan(1)) {
    if (line.fields.size() != 9) {
      lines.refuse(line, fmt::format("expected 9 numbers, got {}", line.fields.size()));
    }
    all.push_back({.id = lines.whole(line, 0, "id", 0, static_cast<int>(kMostStops)),
                   .x = line.fields[1],
                   .y = line.fields[2],
                   .service = lines.number(line, 6, "service time", 0),
                   .load = lines.whole(line, 3, "load", -1'000'000, 1'000'000),
                   .earliest = line.fields[4],
                   .latest = line.fields[5]});
    check_window(lines, line, all.back());
    if (all.back().id != static_cast<int>(all.size()) - 1) {
      lines.refuse(line, fmt::format("id {}: expected {}", all.back().id, all.size() - 1));
    }
    partners.push_back({lines.whole(line, 7, "pickup", 0, count - 1),
                        lines.whole(line, 8, "delivery", 0, count - 1)});
  }
  problem.back_earliest = all.front().earliest;
  problem.back_latest = all.front().latest;
  problem.stops.push_back(all.front());
  for (size_t i = 1; i < all.size(); ++i) {
    const Line& line = lines.all()[i + 1];
    const auto [pickup, delivery] = partners[i];
    const bool is_pickup = pickup == 0 && delivery != 0;
    if (!is_pickup && !(pickup != 0 && delivery == 0)) {
      lines.refuse(line, "expected a pickup or a delivery that names its other end");
    }
    const auto other = static_cast<size_t>(is_pickup ? delivery : pickup);
    if (partners[other][is_pickup ? 0 : 1] != static_cast<int>(i)) {
      lines.refuse(line, fmt::format("stop {} does not name it in turn", other));
    }
    if (is_pickup) add_request(lines, problem, line, all[i], all[other], problem.stops);
  }
  return problem;
}

void require_serveable(const Problem& problem, const std::string& path) {
  std::vector<std::string> numbers;
  Scheduler scheduler(problem);
  for (int request = 0; request < problem.requests(); ++request) {
    const int pickup = Problem::pickup_of(request);
    const std::array<int, 2> alone = {pickup, pickup + 1};
    if (!scheduler.is_feasible(alone)) numbers.push_back(std::to_string(problem.stop(pickup).id));
  }
  if (numbers.empty()) return;
  throw Error(ErrorCode::kData, fmt::format("{}: cannot be served, even alone: pickup{} {}", path,
                                            numbers.size() == 1 ? "" : "s", join(numbers, ", ")));
}

}  // namespace

bool is_standard(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (std::isdigit(static_cast<unsigned char>(text[first])) != 0);
}

Problem read_standard(const std::string& text, const std::string& path,
                      const std::optional<NamedText>& times,
                      const std::optional<NamedText>& rides) {
  const Lines lines(text, path);
  if (lines.all().size() < 2) throw Error(ErrorCode::kData, path + ": has no stops");
  const size_t fields = lines.all().front().fields.size();
  if (fields != 3 && fields != 5) {
    lines.refuse(lines.all().front(),
                 fmt::format("expected 5 numbers (dial-a-ride by Cordeau) or 3 "
                             "(pickup and delivery by Li and Lim), got {}",
                             fields));
  }
  Problem problem = fields == 5 ? read_cordeau(lines) : read_li_lim(lines);
  if (problem.requests() == 0) throw Error(ErrorCode::kData, path + ": has no requests");
  if (times) {
    set_times(problem, times->text, times->path);
  } else {
    problem.measure();
  }
  if (rides) set_rides(problem, rides->text, rides->path);
  require_serveable(problem, path);
  return problem;
}

}  // namespace flotilla::dvrp::standard
