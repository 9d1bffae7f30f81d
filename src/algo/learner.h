// A learner: improves a policy by what a batch of experience shows. The training loop knows this
// face and no algorithm; algo/algorithms.h lists those there are.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/algo/trajectory.h"
#include "flotilla/core/blocks.h"
#include "flotilla/core/serial.h"
#include "flotilla/nn/policy.h"

namespace flotilla {

// What a batch holds besides observations, actions, rewards and flags.
struct BatchNeeds {
  bool logprob = true;     // of the actions, when they were drawn
  bool values = true;      // of the observations acted on, and of those behind the last steps
  bool cut_values = true;  // of the last observations of truncated episodes
};

// A view of what some envs did over some steps; whoever made it keeps it until learn() returns.
// What is not needed is null.
struct Batch {
  Trajectory trajectory;
  Samples samples;
  const float* logprob = nullptr;
};

// Where a run stands.
struct LearnProgress {
  double fraction = 0;   // of the run, from 0 to 1
  uint64_t updates = 0;  // before this one
};

using Metric = std::pair<std::string, double>;

// What one update did.
struct Update {
  double advantage_s = 0, update_s = 0;  // seconds: of estimating, and of descending
  double apply_s = 0;                    // of the latter, without gradients
  // Mean |ratio - 1| of the first rows that were learnt from, new to old probability: exactly 0
  // where acting and learning agree. 0 also where an algorithm has no ratio.
  double first_ratio_error = 0;
  // What is reported of it, in this order: "losses/value_loss". docs/metrics.md.
  std::vector<Metric> metrics;
};

// Of a learner whose threads act and learn by themselves, each from what it collected, without
// waiting for one another. Parts may call at once.
class ActorLearner {
 public:
  virtual ~ActorLearner() = default;
  // Nobody works: parameters are those of the policy.
  virtual void begin() = 0;
  // A policy of the part's own, with the parameters as they are now.
  virtual const ActingPolicy& current(int part) = 0;
  // Learns from these envs of the batch, for which that policy acted.
  virtual void learn(int part, const Batch& batch, Span envs) = 0;
  // Nobody works: the policy gets the parameters.
  virtual void end() = 0;
};

class Learner {
 public:
  virtual ~Learner() = default;

  // Where actors learn by themselves. Then learn() reports what they did since its last call.
  virtual ActorLearner* in_actors() { return nullptr; }

  virtual Update learn(const Batch& batch, const LearnProgress& progress) = 0;

  // From now on batches hold the envs of these blocks, of which other processes have the rest, and
  // all of them learn the same. Called where the algorithm has blocks (Algorithm::blocks).
  virtual void share(Blocks& /*blocks*/) {}

  // The part of the probability that actions of the next batch spread over the open choices.
  virtual double epsilon(double /*fraction*/) const { return 0; }
  // The discount of future rewards, by which a run scales rewards if it does.
  virtual double gamma() const = 0;
  // How often an update goes over a row, forwards and backwards through both networks.
  virtual double passes() const = 0;

  // What it keeps from one update to the next, besides the policy and its optimiser. load()
  // throws Error(kData), and changes nothing, for what is damaged.
  virtual void save(Writer& /*writer*/) const {}
  virtual void load(Reader& /*reader*/) {}
};

}  // namespace flotilla
