#include "flotilla/domains/dvrp/standard/checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/routing/differences.h"

namespace flotilla::dvrp::standard {
namespace {

// Times of a route's stops with the depot at both ends, and one fixed time, 0, behind them.
std::vector<Difference> rules_of(const Problem& problem, const Route& route) {
  std::vector<Difference> rules;
  const size_t back = route.size() + 1, zero = back + 1;
  const auto window = [&](size_t place, double earliest, double latest) {
    rules.push_back({zero, place, earliest});
    rules.push_back({place, zero, -latest});
  };
  window(0, problem.stop(0).earliest, problem.stop(0).latest);
  window(back, problem.back_earliest, problem.back_latest);
  rules.push_back({back, 0, -problem.route_limit});
  int before = 0;
  for (size_t i = 0; i < route.size(); ++i) {
    const Stop& stop = problem.stop(route[i]);
    window(i + 1, stop.earliest, stop.latest);
    rules.push_back({i, i + 1, problem.stop(before).service + problem.distance(before, route[i])});
    before = route[i];
    if (Problem::is_pickup(route[i])) continue;
    const auto pickup = static_cast<size_t>(std::ranges::find(route, route[i] - 1) - route.begin());
    const double most = problem.stop(route[i] - 1).service + problem.longest_ride(route[i]);
    rules.push_back({i + 1, pickup + 1, -most});
  }
  rules.push_back({route.size(), back, problem.stop(before).service + problem.distance(before, 0)});
  return rules;
}

std::string fault_of(const Problem& problem, const Route& route, std::vector<bool>& served) {
  int load = 0;
  std::vector<int> on_board;
  for (const int stop : route) {
    if (stop <= 0 || stop >= static_cast<int>(problem.stops.size()))
      return "a stop that is not there";
    const int id = problem.stop(stop).id;
    const int request = Problem::request_of(stop);
    load += problem.stop(stop).load;
    if (Problem::is_pickup(stop)) {
      if (served[static_cast<size_t>(request)]) return fmt::format("stop {} comes twice", id);
      served[static_cast<size_t>(request)] = true;
      on_board.push_back(request);
      if (load > problem.seats) {
        return fmt::format("{} on board at stop {}, in {}", load, id,
                           counted(problem.seats, "seat"));
      }
    } else if (std::erase(on_board, request) == 0) {
      return fmt::format("stop {} comes before its pickup", id);
    }
  }
  if (!on_board.empty()) {
    const int pickup = Problem::pickup_of(on_board.front());
    return fmt::format("what gets on at stop {} never gets off", problem.stop(pickup).id);
  }
  if (!has_times(rules_of(problem, route), route.size() + 3, kTolerance)) {
    return "no times keep all windows and limits";
  }
  return "";
}

}  // namespace

std::string fault_of(const Problem& problem, const std::vector<Route>& routes) {
  std::vector<bool> served(static_cast<size_t>(problem.requests()), false);
  size_t used = 0;
  for (size_t i = 0; i < routes.size(); ++i) {
    used += routes[i].empty() ? 0 : 1;
    const std::string fault = fault_of(problem, routes[i], served);
    if (!fault.empty()) return fmt::format("route {}: {}", i + 1, fault);
  }
  if (used > static_cast<size_t>(problem.vehicles)) {
    return fmt::format("{} routes for {}", used, counted(problem.vehicles, "vehicle"));
  }
  const auto missing = std::ranges::find(served, false);
  if (missing == served.end()) return "";
  const int pickup = Problem::pickup_of(static_cast<int>(missing - served.begin()));
  return fmt::format("stop {} is not served", problem.stop(pickup).id);
}

}  // namespace flotilla::dvrp::standard
