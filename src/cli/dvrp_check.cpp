// flotilla dvrp check: whether routes, of whatever solver, keep the rules, and what they cost.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "flotilla/cli/dvrp.h"
#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

struct CheckArguments {
  std::string instance, routes, data;
  bool json = false;
};

// The exit status.
int check(const CheckArguments& arguments) {
  const dvrp::Data data = dvrp_data_of(arguments.data);
  const dvrp::Instance instance = read_dvrp_instance(arguments.instance, data);
  const std::vector<dvrp::Route> routes = read_dvrp_routes(arguments.routes);
  const std::string fault = fault_of(instance, routes);
  // Routes with nodes that do not exist have no cost.
  const double cost = fault.empty() ? cost_of(instance, routes) : 0;
  if (arguments.json) {
    nlohmann::ordered_json line = {{"ok", fault.empty()}};
    if (fault.empty()) {
      line["cost"] = cost;
      line["vehicles"] = routes.size();
    } else {
      line["fault"] = fault;
    }
    fmt::print("{}\n", line.dump());
  } else if (fault.empty()) {
    fmt::print("ok: {} in {}, {:.2f} minutes\n",
               counted(static_cast<int64_t>(instance.requests.size()), "request"),
               counted(static_cast<int64_t>(routes.size()), "vehicle"), cost);
  } else {
    fmt::print("fault: {}\n", fault);
  }
  return fault.empty() ? 0 : exit_status(ErrorCode::kCheckFailed);
}

}  // namespace

void add_dvrp_check(CLI::App& dvrp, Program& program) {
  CLI::App* command = dvrp.add_subcommand("check", "say whether routes keep the rules");
  auto arguments = std::make_shared<CheckArguments>();
  command->add_option("instance", arguments->instance, kDvrpInstanceHelp)->required();
  command->add_option("routes", arguments->routes, "routes, as `dvrp solve --json` prints them")
      ->required();
  command->add_option("--data", arguments->data, kDvrpDataHelp);
  command->add_flag("--json", arguments->json, "print one JSON object on stdout");
  command->callback([arguments, &program] { program.exit_status = check(*arguments); });
}

}  // namespace flotilla
