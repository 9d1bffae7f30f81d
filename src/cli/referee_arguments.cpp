#include "flotilla/cli/referee_arguments.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

namespace flotilla {

RefereeArguments::RefereeArguments() : threads(cpu_count()) {}

void RefereeArguments::add_to(CLI::App& command) {
  command_ = &command;
  command.add_option("--referee", name, "lns: the own solver (default), or ortools")
      ->check(CLI::IsMember({"lns", "ortools"}));
  command.add_option("--iterations", iterations, "of the own solver (default 5000)")
      ->check(CLI::Range(0, 1'000'000'000));
  command.add_option("--seconds", ortools.seconds, "of OR-Tools for a seed (default 5)")
      ->check(CLI::Range(0.01, 3600.0));
  command.add_option("--seeds", ortools.seeds, "of OR-Tools, the best of them (default 3)")
      ->check(CLI::Range(1, 1000));
  command.add_option("--python", ortools.python, "that has OR-Tools (default python3)");
  command.add_option("--threads", threads, "default: all CPUs")->check(CLI::Range(1, 1024));
}

dvrp::Referee RefereeArguments::make(const std::string& data, ThreadPool& pool) const {
  const std::vector<std::string> of_ortools = {"--seconds", "--seeds", "--python"};
  const std::vector<std::string> of_lns = {"--iterations"};
  for (const std::string& option : name == "lns" ? of_ortools : of_lns) {
    if (command_->count(option) == 0) continue;
    throw Error(ErrorCode::kUsage, fmt::format("{} is not for --referee {}", option, name));
  }
  if (name == "lns") return dvrp::make_solver_referee(iterations, pool);
  OrToolsOptions options = ortools;
  options.data = data;
  options.processes = threads;
  return make_ortools_referee(options);
}

}  // namespace flotilla
