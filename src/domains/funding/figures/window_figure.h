// One window as it was traded: the equity, and for the symbols that were held the gap between the
// prices of the venues and the funding, with entries and exits.
#pragma once

#include <string>

#include "flotilla/domains/funding/evaluation/trace.h"

namespace flotilla::funding {

// `trader`: his name. Symbols with the largest sums won or lost are drawn, few of them.
std::string window_svg(const Funding& env, const Window& window, const Trace& trace,
                       const std::string& trader);

}  // namespace flotilla::funding
