// What the parent and its worker processes share: a control block and one channel per worker, in
// the same segment as the batch and the slots.
//
// The parent publishes a command per group by raising its sequence number and rings the workers'
// bells. Worker w steps its own fixed range of the group and stores the sequence number in its
// channel; the last one to finish rings the parent's bell. Where groups are actors', each is one
// worker's, and only that one is rung for it. WorkOrder number s reads the slots of
// bank s % 2 and writes those of the other, so a command whose worker died is simply carried out
// again by the next worker.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "flotilla/core/arena.h"
#include "flotilla/core/bell.h"
#include "flotilla/env/env_loop.h"
#include "flotilla/env/slot_vec_env.h"

namespace flotilla {

struct WorkOrder {
  alignas(64) std::atomic<uint32_t> sequence{0};
  Work work = Work::kReset;
  OnFailure on_failure = OnFailure::kStop;
  uint64_t seed = 0;
  ActionView actions;  // pointers of the parent's mapping
  StepView view;
};

enum class WorkerState : uint32_t {
  kStarting,
  kReady,
  kFailed,   // its environment could not be made
  kRefused,  // the system gave it no memory or no thread
};

struct Channel {
  Bell bell;                                                // rung by the parent
  alignas(64) std::atomic<uint32_t> done[kMaxGroups] = {};  // last sequence carried out
  std::atomic<WorkerState> state{WorkerState::kStarting};

  // Left by the signal handler of a worker that crashed.
  std::atomic<int32_t> signal{0};
  std::atomic<bool> signal_from_outside{false};
  std::atomic<bool> signal_has_address{false};
  std::atomic<uint64_t> signal_address{0};

  char start_error[480] = {};  // of kFailed and kRefused
};

struct Control {
  // "fotilla7": workers may be another program, so the number at its end counts the changes of what
  // lies in the segment.
  static constexpr uint64_t kMagic = 0x37616c6c69746f66;
  uint64_t magic = kMagic;
  const std::byte* parent_base = nullptr;
  pid_t parent = 0;
  int32_t num_envs = 0, first_env = 0, replicas = 1, groups = 0, workers = 0, time_limit = 0,
          frame_stack = 1;
  bool whole_groups = false;  // each is one worker's, as an actor wants it
  uint64_t slot_bytes = 0;
  char env_name[256] = {};
  char spec_sha256[65] = {};
  FieldId<std::byte> banks;
  FieldId<Lane> lanes;
  FieldId<FailureNote> notes;
  FieldId<Channel> channels;
  FieldId<char> config;  // YAML, zero-terminated

  WorkOrder commands[kMaxGroups];
  Bell done_bell;  // rung by the last worker to finish a command
  std::atomic<bool> stop{false};
};

// A process's view of the shared parts.
struct Segment {
  std::byte* base = nullptr;
  Control* control = nullptr;

  Channel& channel(int worker) const {
    return *Field<Channel>(base, control->channels).row(static_cast<size_t>(worker));
  }
  std::byte* bank(uint32_t index) const {
    return Field<std::byte>(base, control->banks).row(index % 2);
  }
  // Whether the worker has part in the steps of a group, and the envs of it that are its own.
  bool serves(int worker, int group) const {
    return !control->whole_groups || group % control->workers == worker;
  }
  Span span(int worker, int group) const {
    const Span envs = group_span(control->num_envs, control->groups, group);
    return control->whole_groups ? whole_span(envs, group, control->workers, worker)
                                 : lane_span(envs, group, control->workers, worker);
  }
  bool all_done(int group, uint32_t sequence) const {
    for (int w = 0; w < control->workers; ++w) {
      if (serves(w, group) && channel(w).done[group].load(std::memory_order_seq_cst) != sequence) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace flotilla
