// The environments of this build that offer workflows.
#pragma once

#include "flotilla/domains/workflow/domain.h"

namespace flotilla::workflow {

const std::vector<Domain>& domains();

// What each order of a grid world is worth to a walker that keeps to it on the shortest way, in
// the order of Orders(4). Empty: the domain has no such closed form.
std::vector<double> closed_form_values(const Domain& domain);

}  // namespace flotilla::workflow
