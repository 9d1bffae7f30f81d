// flotilla dvrp show: routes on a map, and when each vehicle does what.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "flotilla/cli/dvrp.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/domains/dvrp/route_figure.h"
#include "flotilla/domains/dvrp/solver.h"

namespace flotilla {
namespace {

struct ShowArguments {
  std::string instance, routes, data, out;
  dvrp::SolveOptions options;
};

std::vector<dvrp::Route> routes_of(const ShowArguments& arguments, const dvrp::Instance& instance) {
  if (!arguments.routes.empty()) {
    std::vector<dvrp::Route> routes = read_dvrp_routes(arguments.routes);
    if (const std::string fault = fault_of(instance, routes); !fault.empty()) {
      throw Error(ErrorCode::kData, arguments.routes + ": breaks a rule: " + fault);
    }
    return routes;
  }
  dvrp::Solution solution = solve(instance, arguments.options);
  if (!std::isfinite(solution.cost)) {
    throw Error(ErrorCode::kData, arguments.instance + ": a request cannot even be served alone");
  }
  return std::move(solution.routes);
}

void show(const ShowArguments& arguments) {
  const dvrp::Data data = dvrp_data_of(arguments.data);
  const dvrp::Instance instance = read_dvrp_instance(arguments.instance, data);
  const std::vector<dvrp::Route> routes = routes_of(arguments, instance);
  write_file_atomically(arguments.out, routes_svg(data, instance, routes));
  fmt::print("{}\n", arguments.out);
}

}  // namespace

void add_dvrp_show(CLI::App& dvrp) {
  CLI::App* command = dvrp.add_subcommand("show", "draw routes on a map and over the day");
  auto arguments = std::make_shared<ShowArguments>();
  command->add_option("instance", arguments->instance, kDvrpInstanceHelp)->required();
  CLI::Option* routes = command->add_option(
      "--routes", arguments->routes,
      "routes, as `dvrp solve --json` prints them (default: what `dvrp solve` finds)");
  command->add_option("--seconds", arguments->options.seconds, "of search for routes")
      ->check(CLI::Range(0.0, 86'400.0))
      ->excludes(routes);
  command->add_option("--out", arguments->out, "SVG file to write")->required();
  command->add_option("--data", arguments->data, kDvrpDataHelp);
  command->callback([arguments] { show(*arguments); });
}

}  // namespace flotilla
