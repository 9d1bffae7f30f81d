// flotilla dvrp check: whether routes, of whatever solver, keep the rules, and what they cost.
#include <fmt/format.h>

#include <memory>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/commands/limit_options.h"
#include "flotilla/domains/dvrp/commands/standard.h"
#include "flotilla/domains/dvrp/standard/reader.h"

namespace flotilla {
namespace {

struct CheckArguments {
  std::string instance, routes, data;
  LimitOptions limits;
  bool json = false;
};

// The exit status.
int check(const CheckArguments& arguments) {
  const std::string text = read_whole_file(arguments.instance, kLargestDvrpFile);
  if (dvrp::standard::is_standard(text)) {
    refuse_data_of_standard(arguments.data);
    arguments.limits.refuse_for_standard();
    return check_standard(text, arguments.instance, arguments.routes, arguments.json);
  }
  const dvrp::Data data = dvrp_data_of(arguments.data);
  dvrp::Instance instance = decode_instance(text, arguments.instance, data);
  instance.limits = arguments.limits.over(instance.limits);
  const dvrp::Routes routes = read_dvrp_routes(arguments.routes);
  const std::string fault = fault_of(instance, routes);
  // Routes with nodes that do not exist have no cost.
  const double cost = fault.empty() ? cost_of(instance, routes) : 0;
  const auto used = static_cast<int64_t>(routes.used());
  if (arguments.json) {
    Json line = {{"ok", fault.empty()}};
    if (fault.empty()) {
      line["cost"] = cost;
      line["vehicles"] = used;
    } else {
      line["fault"] = fault;
    }
    display_data(line.dump() + "\n");
  } else if (fault.empty()) {
    display(fmt::format("ok: {} in {}, {:.2f} minutes\n",
                        counted(static_cast<int64_t>(instance.requests.size()), "request"),
                        counted(used, "vehicle"), cost));
  } else {
    display("fault: " + fault + "\n");
  }
  return fault.empty() ? 0 : exit_status(ErrorCode::kCheckFailed);
}

}  // namespace

void add_dvrp_check(Command& dvrp, Program& program) {
  Command& command = dvrp.add("check", "say whether routes keep the rules");
  auto arguments = std::make_shared<CheckArguments>();
  command.option("instance", arguments->instance, kDvrpAnyInstanceHelp).required();
  command.option("routes", arguments->routes, "routes, as `dvrp solve --json` prints them")
      .required();
  command.option("--data", arguments->data, kDvrpDataHelp);
  arguments->limits.add_to(command);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments, &program] { program.exit_status = check(*arguments); });
}

}  // namespace flotilla
