// What a search leaves behind: its history as JSON, to read and to go on from, and two tables in
// the columns of the earlier system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/domains/workflow/acquisition.h"
#include "flotilla/domains/workflow/domain.h"
#include "flotilla/env/spec.h"
#include "flotilla/train/rollout.h"

namespace flotilla::workflow {

// A workflow that was trained for.
struct Trained {
  static constexpr size_t kTop = 3;

  int order = 0;
  std::vector<Candidate> top;  // the choice, then the next best ones: kTop at most
  int64_t episodes = 0;
  double compliance = 0;                  // at the end of training
  bool reached = false;                   // the threshold
  double value = 0, eval_compliance = 0;  // of the evaluation
  std::string params_sha256;
};

struct SearchState {
  std::vector<Trained> history;
  // Where the tables end: what lies behind is of a workflow that did not come to its end.
  uint64_t training_log = 0, choice_log = 0;
  std::string settings_sha256;  // of the files beside it; "": of older programs
};
std::string encode_state(const Domain& domain, const Orders& orders, int n_envs, bool finished,
                         const SearchState& state);
// Throws Error(kData) that names the file and what is wrong.
SearchState decode_state(const Domain& domain, const Orders& orders, const std::string& text,
                         const std::string& path);

// Where the domain's metrics stand among those of the environment. Throws Error(kInternal).
struct MetricPlaces {
  MetricPlaces(const Domain& domain, const EnvSpec& spec);
  size_t value, compliance, acts;
};

// The rows of training_log.csv for one workflow.
class TrainingRows {
 public:
  TrainingRows(int workflow, std::string title, const MetricPlaces& places, int envs);

  void add(const std::vector<Episode>& episodes);  // that ended before an update
  void end(const Trained& trained);
  const std::string& text() const { return text_; }

 private:
  struct Row;
  void write(const Row& row);

  int workflow_;
  std::string title_, text_;
  MetricPlaces places_;
  std::vector<int64_t> played_;  // episodes, by env
  int64_t total_ = 0;
};
std::string training_log_header();

// A row of gp_sampling_log.csv.
std::string choice_row(const Domain& domain, const Orders& orders, int iteration,
                       const Trained& trained, const std::string& method, double bonus);
std::string choice_log_header();

}  // namespace flotilla::workflow
