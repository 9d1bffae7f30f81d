#include "flotilla/domains/dvrp/commands/referee_arguments.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

namespace flotilla {

RefereeArguments::RefereeArguments() : threads(cpu_count()) {}

void RefereeArguments::add_to(Command& command) {
  command_ = &command;
  command.option("--referee", name, "lns: the own solver (default), or ortools")
      .choices({"lns", "ortools"});
  command.option("--iterations", iterations, "of the own solver (default 5000)")
      .range(0, 1'000'000'000);
  command.option("--seconds", ortools.seconds, "of OR-Tools for a seed (default 5)")
      .range(0.01, 3600.0);
  command.option("--seeds", ortools.seeds, "of OR-Tools, the best of them (default 3)")
      .range(1, 1000);
  command.option("--python", ortools.python, "that has OR-Tools (default python3)");
  command.option("--threads", threads, "default: all CPUs").range(1, 1024);
}

dvrp::Referee RefereeArguments::make(const std::string& data, ThreadPool& pool) const {
  const std::vector<std::string> of_ortools = {"--seconds", "--seeds", "--python"};
  const std::vector<std::string> of_lns = {"--iterations"};
  for (const std::string& option : name == "lns" ? of_ortools : of_lns) {
    if (!command_->given(option)) continue;
    throw Error(ErrorCode::kUsage, fmt::format("{} is not for --referee {}", option, name));
  }
  if (name == "lns") return dvrp::make_solver_referee(iterations, pool);
  OrToolsOptions options = ortools;
  options.data = data;
  options.processes = threads;
  return make_ortools_referee(options);
}

}  // namespace flotilla
