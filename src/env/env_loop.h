// The batch loop over one kind of environment: resets and steps a range of envs, and does the
// bookkeeping every env needs: autoreset, time limit, episode statistics, failures.
//
// A loop has no memory of its own. Each env's state lies in a slot: a header the engine knows
// and the env's State behind it, all trivially copyable. The back ends decide where slots lie and
// who calls the loop on which range; the arithmetic is the same everywhere.
//
// Slots are read from one bank and written to another (the same bank for back ends that need no
// pre-step copy), so a call that was interrupted can be repeated: it reads only the input bank.
//
// Determinism: what env i writes depends on its slot, its action and nothing else.
// Allocates: nothing, unless an env throws.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "flotilla/core/thread_pool.h"
#include "flotilla/env/env.h"
#include "flotilla/env/episode_observer.h"
#include "flotilla/env/frame_stack.h"
#include "flotilla/env/views.h"

namespace flotilla {

enum class OnFailure : uint8_t { kStop, kRestart, kDrop };

enum class SlotStatus : uint32_t {
  kLive,
  kFailed,   // its last step failed; the next call recovers it as the policy says
  kDropped,  // out of service until the next reset of all
};

struct SlotHeader {
  Rng rng;
  uint64_t episode_start = 0;  // position of rng before the reset that began this episode
  double episode_return = 0;
  uint32_t length = 0;   // steps of this episode so far
  uint32_t episode = 0;  // episodes begun since reset, less one
  uint32_t failures = 0;
  SlotStatus status = SlotStatus::kLive;
};

enum class Phase : uint8_t { kReset, kStep };

// What went wrong with one env in the last call. The loop fills it for exceptions; the process
// back end also for workers that died.
struct FailureNote {
  uint32_t count = 0;   // failures in this call; 0: none
  uint32_t length = 0;  // of the episode when it happened, and so on
  uint32_t episode = 0;
  uint64_t episode_start = 0;
  Phase phase = Phase::kStep;
  bool out_of_service = false;  // it could not be brought back
  char what[230] = {};

  void set(Phase where, const SlotHeader& slot, const char* text);
};

// One caller's place of work: which env it is in at this moment, for watchdogs and post-mortems.
struct alignas(64) Lane {
  std::atomic<int32_t> env{-1};  // -1: not in env code
  std::atomic<Phase> phase{Phase::kStep};
  std::atomic<uint32_t> failures{0};  // notes not yet read
  std::atomic<uint32_t> calls{0};     // finished calls: changes while work goes on
};

struct LoopCall {
  const std::byte* in = nullptr;  // bank of slots before the call
  std::byte* out = nullptr;       // bank of slots after it; may be the same
  ActionView actions;
  StepView view;
  FailureNote* notes = nullptr;
  Lane* lane = nullptr;
  OnFailure on_failure = OnFailure::kStop;
  uint64_t seed = 0;                          // of reset()
  uint64_t position = 0;                      // of the generators at reset()
  int first_env = 0, replicas = 1;            // VecOptions
  const EpisodeObserver* observer = nullptr;  // null: nobody looks
};

// The common part of a step of batched envs.
class LoopStage {
 public:
  virtual ~LoopStage() = default;
  // For the envs that are in service, whose slots lie in `bank`.
  virtual void run(Span envs, std::byte* bank) = 0;
  virtual std::string name() const = 0;  // Stage
};

class EnvLoop {
 public:
  explicit EnvLoop(EnvSpec spec) : spec_(std::move(spec)) {}
  virtual ~EnvLoop() = default;

  const EnvSpec& spec() const { return spec_; }
  const FrameStack& frame_stack() const { return stack_; }

  virtual size_t slot_bytes() const = 0;
  // Begins the first episode of each env. Slots marked kFailed in the input bank are taken as
  // having failed their reset before.
  virtual void reset(Span envs, const LoopCall& call) const noexcept = 0;
  virtual void step(Span envs, const LoopCall& call) const noexcept = 0;
  // Null where envs step alone. Otherwise a step is prepare() of every env, run() of the stage,
  // step() of every env, all in one bank. `pool` must outlive the stage.
  virtual std::unique_ptr<LoopStage> make_stage(ThreadPool& pool) const = 0;
  virtual void prepare(Span envs, const LoopCall& call) const noexcept = 0;
  // Rewrites obs, mask and advice of each env from its slot in `bank`.
  virtual void observe(Span envs, std::byte* bank, const StepView& view) const = 0;
  // Brings envs of which a part lies outside of the slots back to what the slots say, or begins new
  // episodes where that cannot be done; writes what observe() writes.
  virtual void restore(Span envs, const LoopCall& call) const noexcept = 0;
  // Whether the envs are in worker programs alone: then this loop only knows what they look like.
  virtual bool is_remote() const { return false; }
  // Whether a slot is all there is of an env, so that it can be saved and a step repeated.
  virtual bool keeps_states() const { return true; }
  // What the envs learn together; null where they do not.
  virtual EnvMemory* memory() const = 0;
  // Puts a slot that was saved into one of this program, which may have changed since. False: its
  // size is that of none that is known.
  virtual bool read_slot(std::span<const std::byte> saved, std::byte* slot) const {
    if (saved.size() != slot_bytes()) return false;
    std::memcpy(slot, saved.data(), saved.size());
    return true;
  }
  // Whether the state in this slot is one the env can be in; for states read from a file.
  virtual bool valid_state(const std::byte* slot) const = 0;

 protected:
  // Throws Error(kUsage) unless the env has the optional member exactly when its spec says so.
  void require_offered(const char* member, bool has, const char* field, bool says) const;

  EnvSpec spec_;  // with the frame stack
  FrameStack stack_;
};

// New episodes that are tried after a failure before the env goes out of service.
constexpr int kResetAttempts = 3;
// After a failure the generator jumps this far, so that the same draws are not met again.
constexpr int kFailureLeapBits = 40;
constexpr const char* kNoMemory = "out of memory";
constexpr const char* kForeignException = "an exception that is not a std::exception";

// How an env lies in a bank; behind it follow the frames of its stack.
template <class State>
struct alignas(kRowAlignment) SlotOf {
  SlotHeader header;
  State state;

  static size_t bytes_with(const FrameStack& stack) {
    return (sizeof(SlotOf) + stack.bytes() + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  }
};

template <SteppableEnv E>
class LoopOf final : public EnvLoop {
 public:
  using Slot = SlotOf<typename E::State>;
  static_assert(std::is_trivially_copyable_v<Slot>);

  // `source`: what the env is made from, mostly its Config. `time_limit` replaces the env's own
  // when positive. `frames`: of the frame stack.
  template <class Source>
  requires std::constructible_from<E, const Source&> LoopOf(const std::string& name,
                                                            const Source& source, int time_limit,
                                                            int frames = 1)
      : EnvLoop({}), env_(source) {
    spec_ = env_.spec();
    spec_.name = name;
    if (time_limit > 0) spec_.time_limit = time_limit;
    frame_elements_ = spec_.obs.elements();
    stack_ = FrameStack(spec_, frames);
    spec_.validate();
    require_offered("mask", MaskedEnv<E>, "has_mask", spec_.has_mask);
    require_offered("advice", AdvisedEnv<E>, "has_advice", spec_.has_advice);
    require_offered("metrics", MeteredEnv<E>, "metrics", !spec_.metrics.empty());
    slot_bytes_ = Slot::bytes_with(stack_);
    obs_bytes_ = spec_.obs.row_bytes();
    action_dims_ = spec_.action.dims();
    mask_size_ = spec_.action.mask_size();
    time_limit_ = spec_.time_limit > 0 ? static_cast<uint32_t>(spec_.time_limit) : UINT32_MAX;
  }

  size_t slot_bytes() const override { return slot_bytes_; }

  void reset(Span envs, const LoopCall& call) const noexcept override {
    for_chunks(envs, call, [&](Span chunk, Flags& flags) {
      for (int i = chunk.begin; i < chunk.end; ++i) reset_one(call, flags, i);
    });
  }

  void step(Span envs, const LoopCall& call) const noexcept override {
    call.lane->phase.store(Phase::kStep, std::memory_order_relaxed);
    for_chunks(envs, call, [&](Span chunk, Flags& flags) {
      if (step_at_once(chunk, call, flags)) return;
      guarded(
          chunk, [&](int i) { step_one(call, flags, i); },
          [&](int i, const char* what) { fail(call, flags, i, what); });
    });
  }

  std::unique_ptr<LoopStage> make_stage(ThreadPool& pool) const override {
    if constexpr (BatchedEnv<E>) {
      return std::make_unique<StageOf>(*this, env_.make_stage(pool));
    } else {
      return nullptr;
    }
  }

  void prepare(Span envs, const LoopCall& call) const noexcept override {
    if constexpr (BatchedEnv<E>) {
      call.lane->phase.store(Phase::kStep, std::memory_order_relaxed);
      guarded(
          envs, [&](int i) { prepare_one(call, i); },
          [&](int i, const char* what) {
            note(call, i, what);
            slot(call.out, i).header.status = SlotStatus::kFailed;  // step() puts it back
          });
      leave(call);
    }
  }

  void observe(Span envs, std::byte* bank, const StepView& view) const override {
    for (int i = envs.begin; i < envs.end; ++i) {
      Slot& s = slot(bank, i);
      if (s.header.status == SlotStatus::kLive) {
        write_obs(s, s.header.length, view, i);
      } else {
        write_blank(view, i);
      }
    }
  }

  void restore(Span envs, const LoopCall& call) const noexcept override {
    for_chunks(envs, call, [&](Span chunk, Flags& flags) {
      guarded(
          chunk, [&](int i) { restore_one(call, flags, i); },
          [&](int i, const char* what) { fail(call, flags, i, what); });
    });
  }

  EnvMemory* memory() const override {
    if constexpr (LearningEnv<E>) {
      return env_.memory();
    } else {
      return nullptr;
    }
  }

  bool read_slot(std::span<const std::byte> saved, std::byte* bytes) const override {
    if constexpr (UpgradedEnv<E>) {
      using OldSlot = SlotOf<typename E::OldState>;
      if (saved.size() == OldSlot::bytes_with(stack_)) {
        OldSlot old;
        std::memcpy(static_cast<void*>(&old), saved.data(), sizeof(OldSlot));
        Slot& s = slot(bytes, 0);
        s = Slot{.header = old.header, .state = E::upgraded(old.state)};
        std::memcpy(bytes + sizeof(Slot), saved.data() + sizeof(OldSlot), stack_.bytes());
        return true;
      }
    }
    return EnvLoop::read_slot(saved, bytes);
  }

  bool valid_state(const std::byte* bytes) const override {
    if constexpr (ValidatedEnv<E>) {
      return env_.valid(reinterpret_cast<const Slot*>(bytes)->state);
    }
    return true;
  }

 private:
  const Slot& slot(const std::byte* bank, int i) const {
    return *reinterpret_cast<const Slot*>(bank + static_cast<size_t>(i) * slot_bytes_);
  }
  Slot& slot(std::byte* bank, int i) const {
    return *reinterpret_cast<Slot*>(bank + static_cast<size_t>(i) * slot_bytes_);
  }
  // The slot to be written, as it was before the call.
  Slot& continued_slot(const LoopCall& call, int i) const {
    Slot& s = slot(call.out, i);
    if (call.in != call.out) {
      std::memcpy(static_cast<void*>(&s), &slot(call.in, i), slot_bytes_);
    }
    return s;
  }

  class StageOf final : public LoopStage {
   public:
    StageOf(const LoopOf& loop, std::unique_ptr<Stage<typename E::State>> stage)
        : loop_(loop), stage_(std::move(stage)) {}

    void run(Span envs, std::byte* bank) override {
      states_.clear();
      states_.reserve(static_cast<size_t>(envs.size()));  // some may be out of service today
      for (int i = envs.begin; i < envs.end; ++i) {
        Slot& s = loop_.slot(bank, i);
        if (s.header.status == SlotStatus::kLive) states_.push_back(&s.state);
      }
      stage_->run(states_);
    }
    std::string name() const override { return stage_->name(); }

   private:
    const LoopOf& loop_;
    std::unique_ptr<Stage<typename E::State>> stage_;
    std::vector<typename E::State*> states_;
  };

  // Calls body(i) for every env, and failed(i, what) for one that throws. One try block around the
  // loop, not one per env: entered again after a failure.
  template <class Body, class Failed>
  static void guarded(Span envs, const Body& body, const Failed& failed) noexcept {
    for (int i = envs.begin; i < envs.end; ++i) {
      try {
        for (; i < envs.end; ++i) body(i);
      } catch (const std::bad_alloc&) {
        failed(i, kNoMemory);
      } catch (const std::exception& error) {
        failed(i, error.what());
      } catch (...) {
        failed(i, kForeignException);
      }
    }
  }

  // The flags of some consecutive envs, written to the batch in one go: they share cache lines
  // with those of other threads, and a line that changes hands at every env costs more than the
  // step of a small one.
  struct Flags {
    static constexpr int kEnvs = 64;
    int first = 0;
    uint8_t terminated[kEnvs], truncated[kEnvs], valid[kEnvs];

    void set(int i, bool is_terminated, bool is_truncated, bool is_valid) {
      terminated[i - first] = is_terminated;
      truncated[i - first] = is_truncated;
      valid[i - first] = is_valid;
    }
    void write(const StepView& view, int count) const {
      const auto bytes = static_cast<size_t>(count);
      std::memcpy(view.terminated + first, terminated, bytes);
      std::memcpy(view.truncated + first, truncated, bytes);
      std::memcpy(view.valid + first, valid, bytes);
    }
  };

  template <class F>
  static void for_chunks(Span envs, const LoopCall& call, F&& body) {
    Flags flags;
    for (int first = envs.begin; first < envs.end; first += Flags::kEnvs) {
      const Span chunk{first, std::min(first + Flags::kEnvs, envs.end)};
      flags.first = first;
      body(chunk, flags);
      flags.write(call.view, chunk.size());
    }
    leave(call);
  }

  static void leave(const LoopCall& call) {
    call.lane->env.store(-1, std::memory_order_relaxed);
    const uint32_t calls = call.lane->calls.load(std::memory_order_relaxed);
    call.lane->calls.store(calls + 1, std::memory_order_relaxed);
  }

  void reset_one(const LoopCall& call, Flags& flags, int i) const noexcept {
    const SlotHeader before = slot(call.in, i).header;
    Slot& s = slot(call.out, i);
    s = Slot{};
    const auto number = static_cast<uint64_t>((call.first_env + i) / call.replicas);
    s.header.rng = Rng(call.seed, stream_of(Purpose::kEnv, number), call.position);
    s.header.failures = before.failures;
    call.view.reward[i] = 0.0f;
    flags.set(i, false, false, true);
    if (before.status != SlotStatus::kLive) {
      put_back(s, before.status, call, flags, i);
    } else if (!try_episode(s, call, i)) {
      put_back(s, SlotStatus::kFailed, call, flags, i);
    }
  }

  void prepare_one(const LoopCall& call, int i) const {
    Slot& s = slot(call.out, i);
    if (s.header.status != SlotStatus::kLive) return;
    call.lane->env.store(i, std::memory_order_relaxed);
    env_.prepare(s.state, action_of(call, i), s.header.rng);
  }

  ActionRow action_of(const LoopCall& call, int i) const {
    return ActionRow(call.actions.row(static_cast<size_t>(i), action_dims_));
  }

  void step_one(const LoopCall& call, Flags& flags, int i) const {
    Slot& s = continued_slot(call, i);
    call.lane->env.store(i, std::memory_order_relaxed);
    if (s.header.status != SlotStatus::kLive) return put_back(s, s.header.status, call, flags, i);

    account(call, flags, s, i, env_.step(s.state, action_of(call, i), s.header.rng));
  }

  // False: they are to step one by one.
  bool step_at_once(Span chunk, const LoopCall& call, Flags& flags) const noexcept {
    if constexpr (ManySteppingEnv<E>) {
      typename E::State* states[Flags::kEnvs];
      Outcome outcomes[Flags::kEnvs];
      bool all_live = true;
      for (int i = chunk.begin; i < chunk.end; ++i) {
        Slot& s = continued_slot(call, i);
        all_live = all_live && s.header.status == SlotStatus::kLive;
        states[i - chunk.begin] = &s.state;
      }
      if (!all_live) return false;
      const auto count = static_cast<size_t>(chunk.size());
      call.lane->env.store(chunk.begin, std::memory_order_relaxed);
      env_.step_many({states, count}, action_of(call, chunk.begin), {outcomes, count});
      guarded(
          chunk,
          [&](int i) { account(call, flags, slot(call.out, i), i, outcomes[i - chunk.begin]); },
          [&](int i, const char* what) { fail(call, flags, i, what); });
      return true;
    } else {
      return false;
    }
  }

  // A step that was made: what it brought, and a new episode where it was the last.
  void account(const LoopCall& call, Flags& flags, Slot& s, int i, Outcome outcome) const {
    if (!outcome.valid) outcome.reward = 0;
    // The header follows only when the env has observed, too: until then the step can still fail.
    const uint32_t length = s.header.length + 1;
    const double episode_return = s.header.episode_return + static_cast<double>(outcome.reward);
    const bool truncated = outcome.truncated || length >= time_limit_;
    call.view.reward[i] = outcome.reward;
    flags.set(i, outcome.terminated, truncated, outcome.valid);
    if (outcome.terminated || truncated) {
      write_episode(s, call.view, i, episode_return, length);
      if (call.observer != nullptr) (*call.observer)(i, &s.state);
      ++s.header.episode;
      begin_episode(s, call, i);
    } else {
      write_obs(s, length, call.view, i);
      s.header.length = length;
      s.header.episode_return = episode_return;
    }
  }

  void restore_one(const LoopCall& call, Flags& flags, int i) const {
    Slot& s = continued_slot(call, i);
    call.lane->env.store(i, std::memory_order_relaxed);
    if (s.header.status != SlotStatus::kLive) return put_back(s, s.header.status, call, flags, i);
    call.view.reward[i] = 0.0f;
    flags.set(i, false, false, true);
    if constexpr (RestoredEnv<E>) {
      env_.place(s.state, i);
      if (!env_.restore(s.state)) {
        ++s.header.episode;
        return begin_episode(s, call, i);
      }
    }
    write_obs(s, s.header.length, call.view, i);
  }

  void begin_episode(Slot& s, const LoopCall& call, int i) const {
    call.lane->phase.store(Phase::kReset, std::memory_order_relaxed);
    s.header.length = 0;
    s.header.episode_return = 0;
    s.header.episode_start = s.header.rng.position();
    s.state = typename E::State{};
    if constexpr (PlacedEnv<E>) env_.place(s.state, i);
    env_.reset(s.state, s.header.rng);
    write_obs(s, 0, call.view, i);
    call.lane->phase.store(Phase::kStep, std::memory_order_relaxed);
  }

  bool try_episode(Slot& s, const LoopCall& call, int i) const noexcept {
    call.lane->env.store(i, std::memory_order_relaxed);
    try {
      begin_episode(s, call, i);
      return true;
    } catch (const std::bad_alloc&) {
      note(call, i, kNoMemory);
    } catch (const std::exception& error) {
      note(call, i, error.what());
    } catch (...) {
      note(call, i, kForeignException);
    }
    return false;
  }

  void fail(const LoopCall& call, Flags& flags, int i, const char* what) const noexcept {
    note(call, i, what);
    put_back(slot(call.out, i), SlotStatus::kFailed, call, flags, i);
  }

  void note(const LoopCall& call, int i, const char* what) const noexcept {
    SlotHeader& header = slot(call.out, i).header;
    call.notes[i].set(call.lane->phase.load(std::memory_order_relaxed), header, what);
    call.lane->failures.fetch_add(1, std::memory_order_relaxed);
    call.lane->phase.store(Phase::kStep, std::memory_order_relaxed);
    ++header.failures;
  }

  // The row of an env that failed or is out of service is invalid. A failed one gets a new
  // episode where the policy is to restart, and goes out of service otherwise.
  void put_back(Slot& s, SlotStatus status, const LoopCall& call, Flags& flags,
                int i) const noexcept {
    call.view.reward[i] = 0.0f;
    flags.set(i, false, false, false);
    if (status == SlotStatus::kFailed && call.on_failure == OnFailure::kRestart) {
      s.header.status = SlotStatus::kLive;
      for (int attempt = 0; attempt < kResetAttempts; ++attempt) {
        s.header.rng.seek(uint64_t{s.header.failures} << kFailureLeapBits);
        ++s.header.episode;
        if (try_episode(s, call, i)) return;
      }
      call.notes[i].out_of_service = true;
    }
    s.header.status = SlotStatus::kDropped;
    write_blank(call.view, i);
  }

  // What the env shows at this step of its episode, straight into the row where there is no stack.
  void write_frames(Slot& s, uint32_t step, std::byte* row) const {
    if (stack_.frames() == 1) return env_.observe(s.state, ObsRow(row, frame_elements_));
    std::byte* kept = reinterpret_cast<std::byte*>(&s) + sizeof(Slot);
    env_.observe(s.state, ObsRow(stack_.place(kept, step), frame_elements_));
    stack_.write(kept, step, row);
  }

  void write_obs(Slot& s, uint32_t step, const StepView& v, int i) const {
    const auto row = static_cast<size_t>(i);
    write_frames(s, step, v.obs + row * obs_bytes_);
    if constexpr (MaskedEnv<E>) {
      if (v.mask != nullptr) env_.mask(s.state, MaskRow(v.mask + row * mask_size_, mask_size_));
    }
    if constexpr (AdvisedEnv<E>) {
      if (v.advice != nullptr) {
        env_.advice(s.state, MaskRow(v.advice + row * mask_size_, mask_size_));
      }
    }
  }

  // The row of an env out of service: zeros, and every choice open so that a policy can sample.
  void write_blank(const StepView& v, int i) const {
    const auto row = static_cast<size_t>(i);
    std::memset(v.obs + row * obs_bytes_, 0, obs_bytes_);
    for (uint8_t* choices : {v.mask, v.advice}) {
      if (choices != nullptr) std::memset(choices + row * mask_size_, 1, mask_size_);
    }
  }

  void write_episode(Slot& s, const StepView& v, int i, double episode_return,
                     uint32_t length) const {
    const auto row = static_cast<size_t>(i);
    write_frames(s, length, v.final_obs + row * obs_bytes_);
    v.episode_return[i] = static_cast<float>(episode_return);
    v.episode_length[i] = static_cast<int32_t>(length);
    if constexpr (MeteredEnv<E>) {
      const size_t count = spec_.metrics.size();
      env_.metrics(s.state, MetricRow(v.metrics + row * count, count));
    }
  }

  E env_;
  size_t slot_bytes_ = sizeof(Slot);
  size_t frame_elements_ = 0, obs_bytes_ = 0, action_dims_ = 0, mask_size_ = 0;
  uint32_t time_limit_ = UINT32_MAX;
};

}  // namespace flotilla
