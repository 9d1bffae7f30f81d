// The figures of one run: how it learned, what the losses did, and where the time went. Panels for
// which the run has no numbers are left out; a figure may have none at all.
#pragma once

#include <string>

#include "flotilla/report/chart.h"
#include "flotilla/report/run_data.h"

namespace flotilla {

Figure learning_figure(const RunData& run);
Figure losses_figure(const RunData& run);
Figure timing_figure(const RunData& run);

// An axis of wall time whose numbers are seconds divided by `unit_s`.
struct TimeAxis {
  explicit TimeAxis(double longest_s);
  double unit_s;
  std::string label;  // "wall time (min)"
};

}  // namespace flotilla
