// Whether routes of a standard instance keep its rules: the referee of whatever made them. It
// shares no code with the search: the rules are written down as differences of times, and a chain
// of them that leads back to itself with a gain is a fault.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/standard/problem.h"

namespace flotilla::dvrp::standard {

// Times may be off by so much.
constexpr double kTolerance = 1e-6;

// What breaks a rule, or "", by the numbers of the file, with routes counted from 1.
std::string fault_of(const Problem& problem, const std::vector<Route>& routes);

}  // namespace flotilla::dvrp::standard
