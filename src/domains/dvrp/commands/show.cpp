// flotilla dvrp show: routes on a map, and when each vehicle does what; of a run, a day before and
// after it was negotiated.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/domains/dvrp/commands/day_options.h"
#include "flotilla/domains/dvrp/figures/day_figure.h"
#include "flotilla/domains/dvrp/figures/route_figure.h"

namespace flotilla {
namespace {

struct ShowArguments {
  std::string what, routes, data, out;
  dvrp::SolveOptions options;
  int day = 0;
  DayOptions which;
};

dvrp::Routes routes_of(const ShowArguments& arguments, const dvrp::Instance& instance) {
  if (!arguments.routes.empty()) {
    dvrp::Routes routes = read_dvrp_routes(arguments.routes);
    if (const std::string fault = fault_of(instance, routes); !fault.empty()) {
      throw Error(ErrorCode::kData, arguments.routes + ": breaks a rule: " + fault);
    }
    return routes;
  }
  return solve_dvrp_instance(arguments.what, instance, arguments.options).routes;
}

std::string day_figure(const Program& program, const ShowArguments& arguments) {
  if (!arguments.routes.empty() || !arguments.data.empty()) {
    throw Error(ErrorCode::kUsage, "--routes and --data are for instances; '" + arguments.what +
                                       "' is a run, which has its own");
  }
  const Activity playing("playing a day");
  const TrainedNegotiator trained =
      read_negotiator(program.registry, arguments.what, arguments.which.checkpoint);
  const auto days =
      trained.days({arguments.day, arguments.day + 1}, arguments.which.seed, cpu_count());
  return dvrp_day_svg(*days, *trained.policy, arguments.what, arguments.options,
                      arguments.which.trim);
}

std::string routes_figure(const ShowArguments& arguments) {
  const dvrp::Data data = dvrp_data_of(arguments.data);
  const dvrp::Instance instance = read_dvrp_instance(arguments.what, data);
  return routes_svg(data, instance, routes_of(arguments, instance));
}

bool is_run(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) || path.ends_with(".safetensors");
}

void show(const Program& program, const ShowArguments& arguments) {
  constexpr const char* kPicture = ".svg";
  require_report_place(arguments.out, kPicture);
  const std::string figure =
      is_run(arguments.what) ? day_figure(program, arguments) : routes_figure(arguments);
  write_report(arguments.out, kPicture, figure);
  display(arguments.out + "\n");
}

}  // namespace

std::string dvrp_day_svg(dvrp::Days& days, const ActingPolicy& policy, const std::string& name,
                         const dvrp::SolveOptions& options, bool trim) {
  dvrp::Day day = days.play(dvrp::policy_negotiator(policy)).front();
  const auto routed = [&](const dvrp::Instance& instance) {
    return solve_dvrp_instance(name, instance, options);
  };
  const dvrp::Solution before = routed(day.asked), after = routed(day.granted);
  if (trim) days.trim(day, after.routes);
  return day_svg(days.data(), {day.asked, before.routes}, {day.granted, after.routes});
}

void add_dvrp_show(Command& dvrp, Program& program) {
  Command& command = dvrp.add(
      "show", "draw routes on a map and over the day; of a run, before and after negotiation");
  auto arguments = std::make_shared<ShowArguments>();
  command
      .option("what", arguments->what,
              std::string(kDvrpInstanceHelp) + "; or a run, or a policy file")
      .required();
  const Option routes = command.option(
      "--routes", arguments->routes,
      "routes, as `dvrp solve --json` prints them (default: what `dvrp solve` finds)");
  command.option("--seconds", arguments->options.seconds, "of search for routes")
      .range(0.0, 86'400.0)
      .excludes(routes);
  command.option("--out", arguments->out, "SVG file to write").required();
  command.option("--data", arguments->data, kDvrpDataHelp);
  command.option("--day", arguments->day, "of a run: which of the days it has not seen")
      .range(0, 9999);
  arguments->which.add_to(command);
  arguments->which.add_checkpoint_to(command);
  command.action([&program, arguments, &command] {
    for (const char* option : {"--day", "--seed", "--checkpoint", "--trim"}) {
      if (!command.given(option) || is_run(arguments->what)) continue;
      throw Error(ErrorCode::kUsage, fmt::format("{} is for runs and policy files", option));
    }
    show(program, *arguments);
  });
}

}  // namespace flotilla
