// What a table tells of a run: from summary.json where the run is finished, and from its settings
// and its metrics otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/report/run_data.h"

namespace flotilla {

struct RunFacts {
  std::string name;
  std::string path;
  std::string state;  // "finished", "not finished", or "table" for a CSV file
  // "" where it is not known.
  std::string env, algo, backend, version, machine, config_sha256;
  std::optional<uint64_t> seed;
  std::optional<double> num_envs, threads, workers, steps, updates, wall_s, steps_per_s;
  std::optional<double> return_mean_100, eval_mean, eval_ci95, peak_rss_mb;
  // Against other runs, and a score; set by compare().
  std::optional<double> speed_up, time_to_score_s, steps_to_score;
};

RunFacts facts_of(const RunData& run);

// For each path the end of it, as short as it can be and told from the others: "a/seed0",
// "b/seed0".
std::vector<std::string> distinct_names(const std::vector<std::string>& paths);

}  // namespace flotilla
