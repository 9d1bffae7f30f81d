#include "flotilla/domains/dvrp/commands/standard.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/standard/checker.h"
#include "flotilla/domains/dvrp/standard/reader.h"
#include "flotilla/domains/dvrp/standard/rides.h"
#include "flotilla/domains/dvrp/standard/schedule.h"
#include "flotilla/domains/dvrp/standard/search.h"
#include "flotilla/domains/dvrp/standard/solution_file.h"
#include "flotilla/domains/dvrp/standard/times.h"

namespace flotilla {
namespace {

using namespace dvrp::standard;

std::optional<NamedText> read_beside(const std::string& path, const char* what) {
  if (!path_exists(path)) return std::nullopt;
  say(fmt::format("{}: {}\n", what, path));
  return NamedText{read_whole_file(path, kLargestDvrpFile), path};
}

// With the travel times and the limits of rides that lie beside it, if there are any.
Problem problem_of(const std::string& text, const std::string& path) {
  return read_standard(text, path, read_beside(times_path(path), "travel times"),
                       read_beside(rides_path(path), "longest rides"));
}

std::vector<int> ids_of(const Problem& problem, std::span<const int> stops) {
  std::vector<int> ids;
  for (const int stop : stops) ids.push_back(problem.stop(stop).id);
  return ids;
}

std::vector<int> unserved_ids(const Problem& problem, const Found& found) {
  std::vector<int> ids;
  for (const int request : found.bank) {
    ids.push_back(problem.stop(Problem::pickup_of(request)).id);
  }
  return ids;
}

Json json_of(const Problem& problem, const Found& found) {
  Json routes = Json::array(), times = Json::array();
  Scheduler scheduler(problem);
  for (const Route& route : found.routes) {
    scheduler.is_feasible(route);
    routes.push_back(ids_of(problem, route));
    times.push_back(scheduler.times());
  }
  return {{"cost", found.distance},         {"vehicles", found.routes.size()},
          {"iterations", found.iterations}, {"unserved", unserved_ids(problem, found)},
          {"routes", std::move(routes)},    {"times", std::move(times)}};
}

// What was found is right, but for those who found no place.
void require_sound(const Problem& problem, const Found& found) {
  const std::string fault = fault_of(problem, found.routes);
  if (fault.empty() || (!found.bank.empty() && fault.ends_with("is not served"))) return;
  throw Error(ErrorCode::kInternal, "the solver's routes break a rule: " + fault);
}

}  // namespace

int solve_standard(const std::string& text, const std::string& path,
                   const dvrp::SolveOptions& options, bool json) {
  const Problem problem = problem_of(text, path);
  Found found;
  {
    const Activity routing("routing");
    found = search(
        problem,
        {.iterations = options.iterations, .seconds = options.seconds, .seed = options.seed});
  }
  require_sound(problem, found);
  if (options.seconds > 0 && found.iterations == 0) {
    say(fmt::format("the first routes alone took longer than {:g} s: nothing was searched\n",
                    options.seconds));
  }
  const int status = found.bank.empty() ? 0 : exit_status(ErrorCode::kCheckFailed);
  if (json) {
    display_data(json_of(problem, found).dump() + "\n");
    return status;
  }
  display(
      fmt::format("{} in {}, distance {:.2f}\n",
                  counted(problem.requests() - static_cast<int64_t>(found.bank.size()), "request"),
                  counted(static_cast<int64_t>(found.routes.size()), "vehicle"), found.distance));
  for (const Route& route : found.routes) {
    display(fmt::format("  {}\n", fmt::join(ids_of(problem, route), " ")));
  }
  if (!found.bank.empty()) {
    display(fmt::format("without a place: pickup{} {}\n", found.bank.size() == 1 ? "" : "s",
                        fmt::join(unserved_ids(problem, found), ", ")));
  }
  return status;
}

int check_standard(const std::string& text, const std::string& path, const std::string& routes_path,
                   bool json) {
  const Problem problem = problem_of(text, path);
  const std::vector<Route> routes =
      decode_routes(read_whole_file(routes_path, kLargestDvrpFile), routes_path, problem);
  const std::string fault = fault_of(problem, routes);
  double distance = 0;
  for (const Route& route : routes) distance += length_of(problem, route);
  const int64_t used =
      std::ranges::count_if(routes, [](const Route& route) { return !route.empty(); });
  if (json) {
    Json line = {{"ok", fault.empty()}};
    if (fault.empty()) {
      line["cost"] = distance;
      line["vehicles"] = used;
    } else {
      line["fault"] = fault;
    }
    display_data(line.dump() + "\n");
  } else if (fault.empty()) {
    display(fmt::format("ok: {} in {}, distance {:.2f}\n", counted(problem.requests(), "request"),
                        counted(used, "vehicle"), distance));
  } else {
    display("fault: " + fault + "\n");
  }
  return fault.empty() ? 0 : exit_status(ErrorCode::kCheckFailed);
}

}  // namespace flotilla
