// The algorithms a program knows, by name: those of this library, and a user's own.
//
//   Algorithms algorithms = built_in_algorithms();
//   algorithms.add({.name = "mine", ...});
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/algo/learner.h"
#include "flotilla/core/config.h"

namespace flotilla {

struct Algorithm {
  std::string name;     // also of its section in the config: the keys of "ppo" are ppo.gamma, ...
  std::string summary;  // one line
  std::string faster;   // how to make its updates faster, for people who ask: "lower ppo.epochs"
  Schema schema;        // the keys of that section
  BatchNeeds needs;
  bool allows_lag = false;  // it learns from what earlier policies did, too: actors may run ahead
  bool learns_in_actors = false;  // and nowhere else: Learner::in_actors()
  // In how many blocks it looks at the envs of a run, which several processes can share out. Empty:
  // in one, so that one process trains.
  std::function<int(const Config& section)> blocks = {};
  // Of how many rows of a batch a gradient is taken. Empty: of all.
  std::function<int64_t(const Config& section, int64_t rows)> minibatch = {};
  // Throws Error(kUsage), which names the key, for settings that contradict each other, the
  // network, or batches of so many rows.
  std::function<void(const Config& section, int64_t rows, const NetworkSpec& network)> validate;
  // `policy` and `pool` outlive the learner.
  std::function<std::unique_ptr<Learner>(const Config& section, Policy& policy, ThreadPool& pool,
                                         uint64_t seed)>
      make;
};

class Algorithms {
 public:
  void add(Algorithm algorithm);  // throws Error(kInternal) when the name is taken
  const Algorithm& find(const std::string& name) const;  // throws Error(kUsage) "did you mean"
  std::vector<std::string> names() const;
  const std::deque<Algorithm>& all() const { return all_; }

 private:
  std::deque<Algorithm> all_;  // references to one outlive the next add()
};

const Algorithms& built_in_algorithms();
// The one that runs use where nothing else is said.
const Algorithm& default_algorithm();

}  // namespace flotilla
