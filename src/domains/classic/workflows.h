// The grid worlds as a search over workflows sees them.
#pragma once

#include <vector>

#include "flotilla/domains/workflow/domain.h"

namespace flotilla::classic {

const std::vector<workflow::Domain>& workflows();

}  // namespace flotilla::classic
