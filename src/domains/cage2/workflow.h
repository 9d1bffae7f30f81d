// The network as a search over workflows sees it: which unit of hosts is repaired first.
#pragma once

#include "flotilla/domains/workflow/domain.h"

namespace flotilla::cage2 {

const workflow::Domain& workflow_domain();

}  // namespace flotilla::cage2
