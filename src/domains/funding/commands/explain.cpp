// flotilla funding explain: the observation and the actions, number by number.
#include <fmt/format.h>

#include <memory>

#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/domains/funding/commands/commands.h"
#include "flotilla/domains/funding/observation.h"

namespace flotilla {
namespace {

void print_list(const std::string& title, const std::vector<std::string>& names) {
  display(fmt::format("{} {}:\n", names.size(), title));
  for (size_t i = 0; i < names.size(); ++i) display(fmt::format("  {:>3} {}\n", i, names[i]));
}

void explain(bool json) {
  const auto observations = funding::observation_names(), actions = funding::action_names();
  if (json) {
    const Json line = {{"observations", Json(observations)}, {"actions", Json(actions)}};
    return display_data(line.dump() + "\n");
  }
  print_list("observations", observations);
  print_list("actions", actions);
}

}  // namespace

void add_funding_explain(Command& funding) {
  Command& command = funding.add("explain", "what a policy sees and can do, number by number");
  auto json = std::make_shared<bool>(false);
  command.flag("--json", *json, "print one JSON object on stdout");
  command.action([json] { explain(*json); });
}

}  // namespace flotilla
