// `dvrp solve` and `dvrp check` of the field's standard instances.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/routing/solver.h"

namespace flotilla {

// `text`: of the instance's file, `path`. Both return the exit status. Throw Error(kData).
int solve_standard(const std::string& text, const std::string& path,
                   const dvrp::SolveOptions& options, bool json);
int check_standard(const std::string& text, const std::string& path, const std::string& routes_path,
                   bool json);

}  // namespace flotilla
