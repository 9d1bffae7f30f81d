// The loop of envs that are in worker processes alone: it knows what they look like and how they
// lie in the slots; who steps them is elsewhere.
#pragma once

#include <memory>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/env/env_loop.h"

namespace flotilla {

// State: the part of a slot behind its header. It has a `kCapacity` of bytes for what the env says
// of its state, 0 where it says nothing, and valid() for what a file has of it.
template <class State>
class RemoteLoop final : public EnvLoop {
 public:
  RemoteLoop(EnvSpec spec, int frames) : EnvLoop(std::move(spec)) {
    stack_ = FrameStack(spec_, frames);
    spec_.validate();
  }

  size_t slot_bytes() const override { return SlotOf<State>::bytes_with(stack_); }
  bool is_remote() const override { return true; }
  bool keeps_states() const override { return State::kCapacity > 0; }
  EnvMemory* memory() const override { return nullptr; }
  bool valid_state(const std::byte* slot) const override {
    if constexpr (State::kCapacity > 0) {
      return reinterpret_cast<const SlotOf<State>*>(slot)->state.valid();
    }
    return true;
  }

  // VecOptions::validate_for() lets nobody call these.
  void reset(Span, const LoopCall&) const noexcept override {}
  void step(Span, const LoopCall&) const noexcept override {}
  void restore(Span, const LoopCall&) const noexcept override {}
  std::unique_ptr<LoopStage> make_stage(ThreadPool&) const override { return nullptr; }
  void prepare(Span, const LoopCall&) const noexcept override {}
  void observe(Span, std::byte*, const StepView&) const override {
    throw Error(ErrorCode::kInternal, "the observations of '" + spec_.name + "' are in workers");
  }
};

}  // namespace flotilla
