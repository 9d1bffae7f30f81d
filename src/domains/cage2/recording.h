// Recorded games of the reference simulator: JSON lines, plain or gzipped, one episode each. What
// the fields of a step mean: docs/cage2.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/domains/cage2/recorded_source.h"
#include "flotilla/domains/cage2/simulator.h"

namespace flotilla::cage2 {

struct RecordedStep {
  int blue_action = 0;
  RecordedChoices choices;
  // The step as the recording tells it, field by field; `stock` is the table of the stock wrapper.
  std::vector<std::string> facts;
};

struct RecordedEpisode {
  uint32_t seed = 0;
  RedAgent red = RedAgent::kSleep;
  bool green = false;
  int line = 0;  // in the file
  std::vector<RecordedStep> steps;
};

// The names of a step's facts, in their order.
const std::vector<std::string>& fact_names();
// The same facts as a simulator tells them. `ordinal`: of the session that was escalated, or -1.
std::vector<std::string> facts_of(const State& state, const StepRecord& record, int ordinal,
                                  uint64_t stock_table);

class Recording {
 public:
  // Throws Error(kData) that names the file.
  explicit Recording(const std::string& path);
  // The next episode, or nothing at the end. Throws Error(kData) "FILE:line: step 3, field 'red
  // action': ..." for a damaged one.
  std::optional<RecordedEpisode> next();

 private:
  std::string path_, text_;
  size_t at_ = 0;
  int line_ = 0;
};

}  // namespace flotilla::cage2
