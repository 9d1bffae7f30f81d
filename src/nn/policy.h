// A policy: chooses actions, values observations, and learns from a loss. Behind one face stand
// the fused CPU kernels (nn/fused) and libtorch (nn/torch).
//
// An algorithm does not know the distribution of actions: it is an Objective, which sees the
// log-probability of each row's action, the entropy and the value, and says how the loss changes
// with them. The policy does the rest, backwards through distribution and network.
//
// Thread safety: act() and value() may run at once with different `part`s. learn() is alone and
// uses the pool it is given.
// Determinism: what a row gets depends on its observation, mask, env number and step, not on the
// rows around it. learn() cuts a minibatch into shards that depend on its size alone and adds
// their gradients in a fixed order, whatever the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "flotilla/core/thread_pool.h"
#include "flotilla/nn/network.h"
#include "flotilla/nn/normaliser.h"
#include "flotilla/nn/parameters.h"

namespace flotilla {

// Rows to act on; row i belongs to env first_env + i. `latent` is what learning needs: the choices
// themselves, or the sample of a box before it is squashed or clipped into `action`.
struct ActRows {
  int count = 0;
  int first_env = 0;
  const std::byte* obs = nullptr;
  const uint8_t* mask = nullptr;  // legal choices, or null
  std::byte* action = nullptr;    // for the env
  std::byte* latent = nullptr;    // for learning; may be `action` where the space is discrete
  float* logprob = nullptr;       // may be null
  float* value = nullptr;         // may be null
};

// How actions are drawn: keyed by (seed, env, step).
struct Draw {
  uint64_t seed = 0, step = 0;
  float epsilon = 0;    // part of the probability that is spread evenly over the open choices
  bool greedy = false;  // the likeliest choice, the mean of a box
};

// Flat arrays of a rollout, by row number.
struct Samples {
  const std::byte* obs = nullptr;
  const uint8_t* mask = nullptr;
  const std::byte* latent = nullptr;
  float epsilon = 0;  // with which the rows were drawn
};

class Objective {
 public:
  static constexpr int kSums = 8;

  // Up to kMaxRows rows at once; row i is sample[i] of the rollout.
  static constexpr int kMaxRows = 64;
  struct Rows {
    int count = 0;
    const int32_t* sample = nullptr;
    const float *logprob = nullptr, *entropy = nullptr, *value = nullptr;
    float *d_logprob = nullptr, *d_entropy = nullptr, *d_value = nullptr;
  };

  virtual ~Objective() = default;
  // Writes the derivatives of the loss, and adds to `sums` whatever the algorithm reports.
  // Called by several threads at once.
  virtual void differentiate(const Rows& rows, double* sums) const = 0;
};

// What an update trains. Separate phases need networks that share nothing.
enum class Part : uint8_t { kAll, kActor, kCritic };

struct AdamStep {
  double lr = 3e-4, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-5;
  double max_grad_norm = 0.5;  // 0: gradients are not clipped
};

struct LearnResult {
  double grad_norm = 0;  // before clipping
  double sums[Objective::kSums] = {};
};

class Policy {
 public:
  explicit Policy(const NetworkSpec& spec);
  virtual ~Policy() = default;

  const NetworkSpec& spec() const { return spec_; }
  virtual std::string kernel() const = 0;  // "fused avx512", for the run header

  // Fewer rows than this are not worth a thread of their own in act().
  virtual int rows_per_part() const { return 1; }

  // `part`: below the number of parts the policy was made for.
  virtual void act(int part, const ActRows& rows, const Draw& draw) const = 0;
  virtual void value(int part, const std::byte* obs, int count, float* out) const = 0;

  // One step of gradient descent (Kingma and Ba, "Adam", 2015) on the rows `chosen`.
  // Throws Error(kNumeric) and changes nothing when the gradient is not finite.
  virtual LearnResult learn(ThreadPool& pool, const Samples& samples,
                            std::span<const int32_t> chosen, Part part, const Objective& objective,
                            const AdamStep& step) = 0;

  virtual Tensors parameters() const = 0;
  virtual void set_parameters(const Tensors& tensors) = 0;
  // First and second moments of every parameter ("m.actor.0.weight", "v.actor..."), and how many
  // steps each part has made.
  virtual Tensors optimiser() const = 0;
  virtual void set_optimiser(const Tensors& tensors) = 0;

  ObsNormaliser& obs_normaliser() { return obs_normaliser_; }
  const ObsNormaliser& obs_normaliser() const { return obs_normaliser_; }
  RewardNormaliser& reward_normaliser() { return reward_normaliser_; }
  const RewardNormaliser& reward_normaliser() const { return reward_normaliser_; }

 protected:
  const NetworkSpec spec_;
  ObsNormaliser obs_normaliser_;
  RewardNormaliser reward_normaliser_;  // of no envs until a trainer sets it up
};

}  // namespace flotilla
