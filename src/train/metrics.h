// What a run reports of itself: a line of metrics.jsonl and a TensorBoard event per update.
// docs/metrics.md lists the names.
//
// A line is one flat JSON object. Lines reach the file about once a second and at every
// checkpoint; a run that goes on from a checkpoint has every update in it exactly once, because
// what was written behind the checkpoint is cut off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/core/file.h"
#include "flotilla/train/event_file.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

// Where a run stood when a line was written.
struct Mark {
  int64_t steps = 0;
  double wall_s = 0;
  Timing timing;
};
Mark mark_of(const Trainer& trainer);

// The metrics of the last update, since the line before it.
std::vector<Metric> metrics_of(const Trainer& trainer, const Mark& before, const Mark& now,
                               const std::optional<Evaluation>& eval);

class MetricsLog {
 public:
  // Begins the files of a run, or goes on with them, without what is of a later step than
  // `last_step`.
  MetricsLog(const Directory& directory, int64_t last_step);

  void write(const Progress& progress, double wall_s, const std::vector<Metric>& metrics);
  void write_text(const std::string& name, const std::string& text, int64_t step);
  void flush();
  // The lines that were flushed are on the disk. May run beside write().
  void sync_lines() const;

 private:
  AppendFile lines_;
  EventFile events_;
  std::string line_;
  uint64_t flushed_ns_ = 0;
};

// Whether a run directory holds a line of metrics.
bool has_metrics(const Directory& directory);

// Throws Error(kData) where a line of metrics.jsonl up to this step is damaged and others follow,
// is there twice or out of order.
void require_whole_metrics(const Directory& directory, int64_t last_step);

// Cuts metrics.jsonl behind the last whole line that is not of a later step. Warns where lines up
// to that step are missing, throws as require_whole_metrics().
void cut_metrics(const Directory& directory, int64_t last_step);

}  // namespace flotilla
