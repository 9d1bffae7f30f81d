// OR-Tools as referee of routes: runs ortools_referee.py, which comes with the program.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/oracle/evaluation.h"

namespace flotilla {

struct OrToolsOptions {
  std::string script;  // empty: the one that comes with the program
  std::string python = "python3";
  std::string data;    // directory of the tables; empty: the default ones
  double seconds = 5;  // of each seed
  int seeds = 3;       // the best of so many
  int processes = 1;
};

// Throws Error(kUsage) where the script or OR-Tools is missing.
dvrp::Referee make_ortools_referee(OrToolsOptions options);

}  // namespace flotilla
