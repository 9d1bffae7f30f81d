// The Env concept: what a native environment has to offer, and the row views it reads and writes.
//
// An environment is a constant description (the class) plus a small State that is a plain value.
// The engine owns the states, so it can save, restore, copy and move them between threads and
// worker processes. step() is pure in (state, action, generator): no clock, no globals, no
// memory of its own. See docs/environments.md for an example.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "flotilla/core/config.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/thread_pool.h"
#include "flotilla/env/memory.h"
#include "flotilla/env/spec.h"

namespace flotilla {

struct Outcome {
  float reward = 0;
  bool terminated = false;  // the episode ended by the rules: nothing follows
  bool truncated = false;   // it was cut off: the value of what would follow still counts
  // False: nothing can be learnt from this step, nor from the rest of the episode; say so at each
  // of them. Not an error: the env goes on, and so does the run.
  bool valid = true;
};

// One env's action: int32 choices or float32 coordinates, as the spec says.
class ActionRow {
 public:
  explicit ActionRow(const void* data) : data_(data) {}
  int discrete(size_t dim = 0) const { return static_cast<const int32_t*>(data_)[dim]; }
  float box(size_t dim = 0) const { return static_cast<const float*>(data_)[dim]; }
  const void* data() const { return data_; }

 private:
  const void* data_;
};

// One env's observation, a row of the batch the learner reads. Write every element.
class ObsRow {
 public:
  ObsRow(void* data, size_t elements) : data_(data), elements_(elements) {}
  std::span<float> f32() const { return {static_cast<float*>(data_), elements_}; }
  std::span<uint8_t> u8() const { return {static_cast<uint8_t*>(data_), elements_}; }

 private:
  void* data_;
  size_t elements_;
};

// 1: legal, or advised. At least one per dimension, and at least one that is both.
using MaskRow = std::span<uint8_t>;
using MetricRow = std::span<float>;  // in the order of EnvSpec::metrics

// What the loop over envs needs of one.
template <class E>
concept SteppableEnv = std::is_trivially_copyable_v<typename E::State> &&
    std::is_default_constructible_v<typename E::State> &&
    requires(const E& e, typename E::State& s, const typename E::State& cs, Rng& g, ActionRow a,
             ObsRow o) {
  { e.spec() } -> std::convertible_to<const EnvSpec&>;
  e.reset(s, g);  // draws from g only
  { e.step(s, a, g) } -> std::same_as<Outcome>;
  e.observe(cs, o);
};

// One that is made from its settings.
template <class E>
concept Env = SteppableEnv<E> && std::constructible_from<E, const Config&> && requires {
  { E::schema() } -> std::same_as<Schema>;  // the env's config keys
};

// Optional: which choices are legal in this state. Set EnvSpec::has_mask.
template <class E>
concept MaskedEnv = SteppableEnv<E> && requires(const E& e, const typename E::State& s, MaskRow m) {
  e.mask(s, m);
};

// Optional: which choices the env advises in this state. Policies act and learn among those that
// are legal and advised; nobody else has to keep to it. Set EnvSpec::has_advice.
template <class E>
concept AdvisedEnv = SteppableEnv<E> &&
    requires(const E& e, const typename E::State& s, MaskRow m) {
  e.advice(s, m);
};

// Optional: the metrics of the episode that ends in this state. Set EnvSpec::metrics.
template <class E>
concept MeteredEnv = SteppableEnv<E> &&
    requires(const E& e, const typename E::State& s, MetricRow m) {
  e.metrics(s, m);
};

// Optional, for envs whose steps are so short that what comes behind one another in them costs
// most, and draw nothing: makes the steps of some envs at once, to the bits of step() of each. The
// rows of `actions` lie behind one another; they have been checked against the space. A crash in it
// is put down to the first of those envs.
template <class E>
concept ManySteppingEnv = SteppableEnv<E> &&
    requires(const E& e, std::span<typename E::State* const> s, ActionRow a, std::span<Outcome> o) {
  { e.step_many(s, a, o) }
  noexcept;
};

// Optional: whether a state read from a file is one the env can be in between steps. Without it
// every state is taken; give it where a wrong one could make the env read out of bounds.
template <class E>
concept ValidatedEnv = SteppableEnv<E> && requires(const E& e, const typename E::State& s) {
  { e.valid(s) } -> std::same_as<bool>;
};

// Optional: an env whose State was another once, and that reads states of that time from files.
// The sizes of both tell them apart.
template <class E>
concept UpgradedEnv = SteppableEnv<E> && std::is_trivially_copyable_v<typename E::OldState> &&
                          sizeof(typename E::OldState) != sizeof(typename E::State) &&
                      requires(const typename E::OldState& old) {
  { E::upgraded(old) } -> std::same_as<typename E::State>;
};

// Optional: an env that needs to know which row of the batch it is, because part of it lies outside
// of its State. Called with a new State, before reset(), and before restore().
template <class E>
concept PlacedEnv = SteppableEnv<E> && requires(const E& e, typename E::State& s, int row) {
  e.place(s, row);
};

// Optional, for such envs: brings the part outside back to what a State of another process says.
// False: that cannot be done, and a new episode begins.
template <class E>
concept RestoredEnv = PlacedEnv<E> && requires(const E& e, typename E::State& s) {
  { e.restore(s) } -> std::same_as<bool>;
};

// The part of a step that all envs make together, such as one call of a network for the batch. It
// has the threads of the VecEnv for itself, and its memory from the first steps on.
template <class State>
class Stage {
 public:
  virtual ~Stage() = default;
  // What it throws ends the run.
  virtual void run(std::span<State* const> states) = 0;
  // What carries it out, where results depend on that.
  virtual std::string name() const { return {}; }
};

// Optional: an env whose steps have such a part. A step is then prepare() of each env, run() for
// all of them, step() of each env; what one leaves for the next lies in the state. Such envs step
// in one group, in the serial and the threads back end.
template <class E>
concept BatchedEnv = SteppableEnv<E> &&
    requires(const E& e, typename E::State& s, Rng& g, ActionRow a, ThreadPool& pool) {
  e.prepare(s, a, g);
  { e.make_stage(pool) } -> std::same_as<std::unique_ptr<Stage<typename E::State>>>;
};

// Optional, for batched envs: what they learn together; null where they do not. The common stage
// is the place to record what happened; reset(), step(), observe(), mask() and advice() may read.
template <class E>
concept LearningEnv = BatchedEnv<E> && requires(const E& e) {
  { e.memory() } -> std::same_as<EnvMemory*>;
};

// Whether a step can be made again from the state before it, with the same outcome, when a worker
// was killed in the middle of it. An env for which that is not so, because it has to do with
// something outside of its State, says `static constexpr bool kRepeatable = false`.
template <Env E>
constexpr bool is_repeatable() {
  if constexpr (requires { E::kRepeatable; }) {
    return E::kRepeatable;
  } else {
    return true;
  }
}

}  // namespace flotilla
