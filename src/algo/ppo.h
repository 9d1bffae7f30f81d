// Proximal policy optimisation: Schulman et al. (2017), on rollouts of many environments.
// docs/ppo.md lists every detail and why it is so.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/algo/algorithms.h"
#include "flotilla/algo/moments.h"
#include "flotilla/algo/ppo_objective.h"
#include "flotilla/algo/schedule.h"

namespace flotilla {

enum class AdvantageScale : uint8_t { kNone, kBatch, kMinibatch };
enum class Returns : uint8_t {
  kGae,
  // Discounted returns normalised over the batch; the advantage is what they exceed the current
  // value by, anew in every epoch.
  kMonteCarlo,
  kVtrace  // of the policy as it is before the update: what acted may have been an earlier one
};

struct PpoOptions {
  std::string section = "ppo";  // for messages
  double gamma = 0.99, lambda = 0.95;
  Returns returns = Returns::kGae;
  double returns_epsilon = 1e-8;    // of the normalisation of Monte-Carlo returns
  double rho_clip = 1, c_clip = 1;  // of V-trace
  AdvantageScale advantage_scale = AdvantageScale::kMinibatch;

  int epochs = 4;
  int minibatches = 4, minibatch_size = 0;  // the size counts where it is given
  // Parts of the envs that are shuffled and summed apart: minibatch m is the m-th part of each.
  int blocks = 1;
  Schedule lr, clip, entropy, epsilon;
  double value_coef = 0.5, value_clip = 0;  // value_clip 0: off
  double max_grad_norm = 0.5;
  double target_kl = 0;  // 0: off
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-5;

  // Separate phases: first the value for value_epochs, then the policy for policy_epochs.
  bool separate = false;
  int value_epochs = 40, policy_epochs = 10;
  double value_lr = 1e-3;

  // Of "ppo", whose key says which returns; or of "appo", with kVtrace.
  static Schema schema(Returns returns = Returns::kGae);
  static PpoOptions from(const Config& section, Returns returns = Returns::kGae);
  // That a gradient is taken of at once, of batches of so many.
  int64_t rows_of_block(int64_t batch) const;
  // Throws Error(kUsage) for sizes that contradict each other. `batch`: rows of a rollout.
  void validate(int64_t batch, const NetworkSpec& network) const;
};

// What one update did, in detail; means over its minibatches.
struct PpoUpdate {
  double policy_loss = 0, value_loss = 0, entropy = 0;
  double approx_kl = 0, clip_fraction = 0, grad_norm = 0;
  double explained_variance = 0;
  double lr = 0, clip = 0, entropy_coef = 0, epsilon = 0;
  double first_ratio_error = 0;
  int epochs = 0, minibatches = 0;
  bool stopped_by_kl = false;
  double advantage_s = 0, update_s = 0, apply_s = 0;
};

// By what advantages are normalised.
struct AdvantageRange {
  double mean = 0, inverse_deviation = 1;
};

// What an update needs to know of all rows before it begins.
struct RowMoments {
  Moments advantage, target, error;  // error: of the values before the update
};

class Ppo final : public Learner {
 public:
  Ppo(Policy& policy, ThreadPool& pool, const PpoOptions& options, uint64_t seed);

  Update learn(const Batch& batch, const LearnProgress& progress) override;
  void share(Blocks& blocks) override {
    blocks_ = &blocks;
    all_of_ = {};
  }
  double epsilon(double fraction) const override { return options_.epsilon.at(fraction); }
  double gamma() const override { return options_.gamma; }
  double passes() const override;

  PpoUpdate update(const Batch& batch, const LearnProgress& progress);

 private:
  struct Minibatch {
    int epoch = 0, part = 0;    // of it
    int rows = 0;               // of all blocks
    AdvantageRange range = {};  // that its advantages are normalised by
  };
  struct Phase {
    Nets nets;
    int epochs;  // for which rows are shuffled
    double lr;
    Moments advantage;  // of all rows
  };

  // `near`: the samples where the policy reads them fastest.
  void estimate(const Batch& batch, const Samples& near, double clip);
  void estimate_by_vtrace(const Batch& batch, const Samples& near, double clip);
  // What the objective compares with.
  const float* old_logprob(const Batch& batch) const;
  const float* old_value(const Batch& batch) const;
  void choose_rows(const Trajectory& trajectory);
  void normalise_returns(const Trajectory& trajectory);
  // Of each block, put together; meanwhile rows are shuffled for so many epochs.
  RowMoments moments_of_all(const Batch& batch, int epochs);
  int all_rows() const { return std::accumulate(block_rows_.begin(), block_rows_.end(), 0); }
  // The rows of every block, for every epoch: how many items of work that is, and one of them.
  int begin_shuffles(int epochs);
  void shuffle_one(int item);
  // Cuts what was shuffled into minibatches.
  void deal(int epochs, const Moments& advantage);
  void scale_minibatches();
  // Of an own block.
  std::span<const int32_t> rows_of(const Minibatch& minibatch, int block) const;
  PpoObjective objective(const Batch& batch, const PpoUpdate& update) const;
  LossSums gradient(const Samples& samples, const Minibatch& minibatch, Nets nets,
                    const PpoObjective& loss);
  void run_phase(const Batch& batch, const Phase& phase, PpoUpdate& update);

  Policy& policy_;
  ThreadPool& pool_;
  const PpoOptions options_;
  const uint64_t seed_;
  Blocks own_blocks_;  // until others are shared
  Blocks* blocks_ = &own_blocks_;
  uint64_t first_shuffle_ = 0;  // of this update
  uint64_t shuffles_ = 0;       // of it that are over
  std::vector<float> advantage_, target_;
  std::vector<float> old_logprob_;              // for V-trace: log-probabilities to stay near
  std::vector<float> value_, last_value_;       // and values before the update
  std::vector<std::vector<int32_t>> rows_;      // valid ones, by own block
  std::pair<int, int> all_of_ = {};             // steps and envs, if they are all rows of these
  std::vector<int> block_rows_;                 // how many each block of the run has
  std::vector<std::vector<int32_t>> shuffled_;  // by epoch and own block
  int parts_ = 1;                               // minibatches of an epoch
  std::vector<Minibatch> minibatches_;          // of all epochs, in their order
  std::vector<float> gradients_, gradient_;     // of own blocks, where there are several; their sum
};

Algorithm ppo_algorithm();
// The same on V-trace targets, for actors that run ahead.
Algorithm appo_algorithm();

}  // namespace flotilla
