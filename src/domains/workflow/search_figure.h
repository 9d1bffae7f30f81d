// A picture of a search: what was expected of each choice and what came of it, how far each kept
// to its order, and what is known in the end of all orders.
#pragma once

#include "flotilla/domains/workflow/search.h"
#include "flotilla/report/chart.h"

namespace flotilla::workflow {

Figure search_figure(const Search& search);

}  // namespace flotilla::workflow
