// The commands of a search over workflows, which the domains that offer workflows add to their own.
#pragma once

#include <vector>

#include "flotilla/command/program.h"
#include "flotilla/domains/workflow/domain.h"

namespace flotilla::workflow {

// `PARENT search`: the best workflow of the domain. `domain` must stay.
void add_search_command(Command& parent, const Program& program, const Domain& domain);

// `bench search`: how fast a search finds the best of values in closed form. `domains` must stay.
// REQUIRES: they have closed forms.
void add_bench_search_command(Command& bench, const std::vector<Domain>& domains);

}  // namespace flotilla::workflow
