// Which independent solver judges, for the commands that ask one.
#pragma once

#include <string>

#include "flotilla/command/program.h"
#include "flotilla/domains/dvrp/commands/ortools_referee.h"

namespace flotilla {

class RefereeArguments {
 public:
  std::string name = "lns";
  int iterations = 5000, threads = 1;
  OrToolsOptions ortools;

  RefereeArguments();
  void add_to(Command& command);
  // `data`: directory of the tables that the instances are of.
  // Throws Error(kUsage) for an option that is the other referee's.
  dvrp::Referee make(const std::string& data, ThreadPool& pool) const;
  // Of the days of an environment with this config.
  dvrp::Referee make_for(const Config& environment, ThreadPool& pool) const;

 private:
  const Command* command_ = nullptr;
};

}  // namespace flotilla
