// Exploration: a bonus for observations that were met seldom, added to the rewards that a learner
// sees and to nothing else. Returns, metrics of episodes and evaluations are without it.
//
// An observation that was acted on n times so far in the run is worth bonus / sqrt(n): Tang et al.,
// "#Exploration: a study of count-based exploration for deep reinforcement learning" (2017). All
// rows of a batch are counted before the first is paid, so that neither their order nor that of
// the envs matters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "flotilla/algo/learner.h"
#include "flotilla/algo/schedule.h"

namespace flotilla {

struct ExplorationOptions {
  Schedule bonus;         // of an observation that is met for the first time
  double resolution = 0;  // numbers are rounded to multiples of it; 0: they count as they are
  int cells = 1 << 18;    // counters: observations that fall on the same one share it

  bool on() const { return bonus.first > 0 || bonus.last > 0; }

  static Schema schema();
  static ExplorationOptions from(const Config& config, const std::string& prefix);
};

// How often observations were met.
class ObservationCounts {
 public:
  ObservationCounts(const NetworkSpec& network, const ExplorationOptions& options);

  // The counter of an observation.
  uint32_t cell(const std::byte* obs) const;
  void count(uint32_t cell);
  uint32_t times(uint32_t cell) const { return counts_[cell]; }
  size_t used_cells() const { return used_; }  // with a count above 0

  void save(Writer& writer) const;
  void load(Reader& reader);

 private:
  const size_t inputs_;
  const ObsType type_;
  const float per_unit_;  // multiples of the resolution in 1; 0: numbers count as they are
  std::vector<uint32_t> counts_;
  size_t used_ = 0;
};

// The same learner, on rewards with the bonus. REQUIRES: it does not learn in actors.
std::unique_ptr<Learner> with_exploration(std::unique_ptr<Learner> learner,
                                          const NetworkSpec& network,
                                          const ExplorationOptions& options);

}  // namespace flotilla
