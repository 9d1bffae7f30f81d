// Runs side by side: their facts, how soon each reached a score, which settings they share, and
// which of them are the same run with another seed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "flotilla/report/chart.h"
#include "flotilla/report/run_data.h"
#include "flotilla/report/run_facts.h"
#include "flotilla/report/settings_report.h"

namespace flotilla {

// Runs that differ by their seed alone.
struct RunGroup {
  std::string name = {};  // from what the paths of its runs have in common
  std::vector<size_t> runs = {};
  bool distinct_seeds = true;
  std::string members() const;  // "5 seeds"; "3 runs" where a seed occurs twice
};

// A return, and where it comes from, in words.
struct Score {
  double value;
  std::string origin;
};

struct Comparison {
  std::vector<RunFacts> runs;
  std::vector<RunGroup> groups;  // of two or more
  std::optional<Score> score;
  SettingsReport settings;
  std::optional<bool> same_config_sha256;  // nothing: not known of all runs
  std::vector<std::string> warnings;       // what must be known before numbers are compared
  // Why speeds and scores of these runs do not say which way of training is better; empty where
  // they do. Seeds, and how a run is carried out, may differ.
  std::vector<std::string> incomparable;
};

// `score`: the return whose first time counts; without one, common_score().
Comparison compare(const std::vector<RunData>& runs, std::optional<double> score);

// Learning curves by steps and by wall time; groups as their mean with the range around it.
Figure comparison_figure(const std::vector<RunData>& runs, const Comparison& comparison);

// A return that all runs reached: 90 % of the way from their lowest start to their lowest end,
// rounded downwards to three digits of the way. Nothing where that is no way up.
std::optional<Score> common_score(const std::vector<RunData>& runs);

// The first row of the metrics whose score is `level` or more.
std::optional<size_t> row_of_score(const RunData& run, double level);

}  // namespace flotilla
