// What a run left behind, read back: config.yaml, metrics.jsonl and summary.json of a run
// directory, whether the run is finished, still going on, or was killed; or a CSV file of another
// program.
//
// The environment of the run need not be known here. Reading takes no lock, so a run can be looked
// at while it goes on.
//
// Errors: Error(kUsage) for a path that is not there or is no run; Error(kData) that names file and
// line for a file that cannot be read or is damaged.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "flotilla/core/directory.h"
#include "flotilla/core/json.h"
#include "flotilla/report/curve.h"
#include "flotilla/report/metrics_table.h"
#include "flotilla/report/settings.h"

namespace flotilla {

struct RunData {
  std::string path;
  std::optional<Directory> directory;  // what was read, should the path lead elsewhere by now
  bool from_csv = false;
  Settings settings;  // empty for a CSV file
  Json summary;       // an object; null where there is none
  MetricsTable metrics;

  bool finished() const { return summary.is_object(); }
  // The last part of the path: "seed0" of "runs/cartpole/seed0/".
  std::string name() const;

  // A number or text of summary.json, by its pointer: "/eval/mean".
  std::optional<double> summary_number(const char* pointer) const;
  std::string summary_text(const char* pointer) const;  // "": there is none
  // A setting, or "".
  std::string setting(const std::string& key) const;

  // How well the policy did, update by update: the mean return of the last 100 episodes. For a
  // table that has single returns only, it is made from these.
  std::vector<double> score() const;
};

RunData read_run(const std::string& path);

// For commands that can do nothing without them: Error(kData) when there is no line of metrics.
void require_metrics(const RunData& run);

}  // namespace flotilla
