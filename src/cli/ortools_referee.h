// OR-Tools as referee of routes: runs bench/peers/ortools_referee.py.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/oracle/evaluation.h"

namespace flotilla {

struct OrToolsOptions {
  std::string script;  // default: of the tree this program was built in
  std::string python = "python3";
  std::string data;    // directory of the tables; empty: the default ones
  double seconds = 5;  // of each seed
  int seeds = 3;       // the best of so many
  int processes = 1;
};

// Throws Error(kUsage) where the script or OR-Tools is missing.
dvrp::Referee make_ortools_referee(OrToolsOptions options);

}  // namespace flotilla
