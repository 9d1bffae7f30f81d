// A policy: chooses actions, values observations, and learns from a loss. Behind one face stand
// the fused CPU kernels (nn/fused) and libtorch (nn/torch).
//
// An algorithm does not know the distribution of actions: it is an Objective, which sees the
// log-probability of each row's action, the entropy and the value, and says how the loss changes
// with them. The policy does the rest, backwards through distribution and network:
//
//   const LossSums sums = policy.gradient(pool, samples, chosen, Nets::kBoth, objective);
//   ... what several machines do with policy.gradient_view() ...
//   const double norm = policy.apply(pool, Nets::kBoth, {.lr = 3e-4, .rule = Adam{}});
//
// Rows may lie on a device: arrays are views that say where they are, and who cannot read there
// refuses them.
//
// Thread safety: act() and value() may run at once with different `part`s. Everything else of a
// Policy is alone and uses the pool it is given. A snapshot never changes: whoever holds one acts
// with it while the policy learns on.
// Determinism: what a row gets depends on its observation, mask, env number and step, not on the
// rows around it. gradient() cuts a minibatch into shards that depend on its size alone and adds
// their gradients in a fixed order, whatever the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "flotilla/core/thread_pool.h"
#include "flotilla/inference/inference.h"
#include "flotilla/nn/network.h"
#include "flotilla/nn/normaliser.h"
#include "flotilla/nn/parameters.h"

namespace flotilla {

// Where arrays lie. Host code reads those of the host alone.
enum class Memory : uint8_t { kHost, kCuda };
// Throws Error(kUsage) for the others.
void require_host(Memory memory);

// Rows to act on; row i belongs to env first_env + i. `latent` is what learning needs: the choices
// themselves, or the sample of a box before it is squashed or clipped into `action`.
struct ActRows {
  int count = 0;
  int first_env = 0;
  const std::byte* obs = nullptr;
  const uint8_t* mask = nullptr;  // open choices, or null
  std::byte* action = nullptr;    // for the env
  std::byte* latent = nullptr;    // for learning; may be `action` where the space is discrete
  float* logprob = nullptr;       // may be null
  float* value = nullptr;         // may be null
  Memory memory = Memory::kHost;  // of all of these
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
  Memory memory = Memory::kHost;
};

// What a policy makes of rows, by their place among the chosen; null: not wanted.
struct RowTerms {
  float *logprob = nullptr, *entropy = nullptr, *value = nullptr;
};

class Objective {
 public:
  static constexpr int kSums = 8;
  static constexpr int kMaxRows = 64;  // independent ones at once

  // Row i is sample[i] of the rollout.
  struct Rows {
    int count = 0;
    const int32_t* sample = nullptr;
    const float *logprob = nullptr, *entropy = nullptr, *value = nullptr;
    float *d_logprob = nullptr, *d_entropy = nullptr, *d_value = nullptr;
    Memory memory = Memory::kHost;  // but for `sample`, which is always on the host
  };

  virtual ~Objective() = default;

  // Rows that belong together. 1: they are independent, and come in tiles of at most kMaxRows in
  // one pass over the network. More: the chosen rows are whole sequences of this many, each in
  // the order of time, and differentiate() gets whole ones.
  virtual int sequence() const { return 1; }
  // Whether differentiate() takes rows that lie there; those of the host it always does.
  virtual bool reads(Memory memory) const { return memory == Memory::kHost; }

  // Writes the derivatives of the loss, and adds to `sums` whatever the algorithm reports.
  // Called by several threads at once.
  virtual void differentiate(const Rows& rows, double* sums) const = 0;
};

// Which of the two networks are trained. One alone can be where they share nothing.
enum class Nets : uint8_t { kBoth, kActor, kCritic };

// Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-5;
};

// Tieleman and Hinton, "RMSProp" (2012), not centred and without momentum.
struct RmsProp {
  double decay = 0.99, epsilon = 1e-5;
};

// One step of gradient descent. The state of either rule is saved with the policy; a run keeps to
// one of them.
struct GradientStep {
  double lr = 3e-4;
  double max_grad_norm = 0.5;  // 0: gradients are not clipped
  std::variant<Adam, RmsProp> rule = Adam{};
};

struct LossSums {
  double of[Objective::kSums] = {};
  double operator[](int i) const { return of[i]; }
};

// The gradient as it lies in memory, for those who add up the gradients of several processes. Its
// layout is that of one kind of policy and network, and the same in every process.
struct GradientView {
  float* data = nullptr;
  size_t count = 0;
  Memory memory = Memory::kHost;
};

// What carries a policy out.
struct Implementation {
  std::string kind;               // "fused", "torch"
  std::string name;               // "fused avx512", "torch 1.13.0 cpu, OpenBLAS SkylakeX"
  Memory memory = Memory::kHost;  // where the network computes
  // Version and name; empty where there is none.
  std::string torch = {}, matrix_library = {};
};

// What acting needs of a policy: the policy itself, or a snapshot of it.
class ActingPolicy {
 public:
  explicit ActingPolicy(const NetworkSpec& spec);
  virtual ~ActingPolicy() = default;

  const NetworkSpec& spec() const { return spec_; }
  virtual Implementation implementation() const = 0;
  // Grows with every change of the parameters.
  uint64_t version() const { return version_; }

  // How many `part`s may act at once.
  virtual int parts() const { return 1; }
  // Whether a row gets the same bits whatever rows come with it, so that envs can play alone.
  virtual bool rows_are_independent() const { return false; }
  // Fewer rows than this are not worth a thread of their own in act().
  virtual int rows_per_part() const { return 1; }

  // `part`: below parts().
  virtual void act(int part, const ActRows& rows, const Draw& draw) const = 0;
  virtual void value(int part, const std::byte* obs, int count, float* out) const = 0;

  // The action for one observation, as act() chooses it for the first env, in part 0. Bytes are
  // taken for observations of floats, too. Throws Error(kUsage) for what does not fit the policy.
  Action predict(std::span<const float> obs, const PredictOptions& options = {}) const;
  Action predict(std::span<const uint8_t> obs, const PredictOptions& options = {}) const;

  const ObsNormaliser& obs_normaliser() const { return obs_normaliser_; }

 private:
  Action predict_row(std::span<const std::byte> obs, const PredictOptions& options) const;

 protected:
  const NetworkSpec spec_;
  ObsNormaliser obs_normaliser_;
  uint64_t version_ = 0;
};

class Policy : public ActingPolicy {
 public:
  explicit Policy(const NetworkSpec& spec) : ActingPolicy(spec) {}

  // The first rows of a rollout where evaluate() and gradient() read them fastest: as they are, or
  // copied to a device, until the next call. Worth it before several passes over them.
  virtual Samples bring(ThreadPool& /*pool*/, const Samples& samples, size_t /*rows*/) {
    return samples;
  }

  // What the policy as it is makes of the rows `chosen`.
  virtual void evaluate(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                        const RowTerms& out) = 0;

  // The gradient of the loss over the rows `chosen`: kept until the next call.
  // REQUIRES: whole sequences, where the objective has them.
  virtual LossSums gradient(ThreadPool& pool, const Samples& samples,
                            std::span<const int32_t> chosen, Nets nets,
                            const Objective& objective) = 0;
  // That gradient, which may be changed before it is applied.
  virtual GradientView gradient_view() = 0;
  // Copies of it on the host, for those who add up several: how many numbers that of these nets
  // has, the numbers, and others in their place.
  virtual size_t gradient_count(Nets nets);
  virtual void read_gradient(std::span<float> to);
  virtual void write_gradient(Nets nets, std::span<const float> from);
  // Clips it and takes a step down along it; returns its norm before clipping. Throws
  // Error(kNumeric) and changes nothing when the gradient is not finite.
  // REQUIRES: the nets of gradient().
  virtual double apply(ThreadPool& pool, Nets nets, const GradientStep& step) = 0;

  // All parameters, on the host, laid out as the gradient of both nets. Who changes them says so
  // before the policy is used again. Throws Error(kUsage) where a policy has none to hand out.
  virtual std::span<float> parameter_view();
  virtual void parameters_changed() {}
  // Another one with the same parameters, which acts in one part. Throws Error(kUsage) likewise.
  virtual std::unique_ptr<Policy> copy() const;

  // The policy as it is now, for as many parts as it was made for. It never changes.
  virtual std::shared_ptr<const ActingPolicy> snapshot() const = 0;

  virtual Tensors parameters() const = 0;
  virtual void set_parameters(const Tensors& tensors) = 0;
  // First and second moments of every parameter ("m.actor.0.weight", "v.actor..."), and how many
  // steps each net has made.
  virtual Tensors optimiser() const = 0;
  virtual void set_optimiser(const Tensors& tensors) = 0;

  using ActingPolicy::obs_normaliser;
  ObsNormaliser& obs_normaliser() { return obs_normaliser_; }
  RewardNormaliser& reward_normaliser() { return reward_normaliser_; }
  const RewardNormaliser& reward_normaliser() const { return reward_normaliser_; }

 protected:
  // Throw Error(kUsage).
  void require_apart(Nets nets) const;
  static void require_whole(std::span<const int32_t> chosen, const Objective& objective);

  RewardNormaliser reward_normaliser_;  // of no envs until a trainer sets it up
};

}  // namespace flotilla
