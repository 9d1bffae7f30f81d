// When training for a workflow has reached its aim: every env has played a few episodes, and the
// mean over the envs of how far their last ones kept to the order is high enough.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace flotilla::workflow {

class ComplianceStop {
 public:
  struct Options {
    double threshold = 0.95;
    int min_episodes = 10;  // of every env
    int window = 5;         // the last episodes of an env that count
    double min_acts = 10;   // of all episodes together: without any there is nothing to judge
  };

  ComplianceStop(const Options& options, int envs);

  // An episode of `env` has ended.
  void note(int env, double compliance, double acts);
  // Mean over the envs that have ended an episode; 0 before the first.
  double compliance() const;
  bool reached() const;

 private:
  struct Env {
    int64_t episodes = 0;
    std::deque<double> last;
  };
  Options options_;
  std::vector<Env> envs_;
  double acts_ = 0;
};

}  // namespace flotilla::workflow
