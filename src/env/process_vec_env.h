// The processes back end: worker processes that share one segment with the caller.
//
// A worker that dies or hangs is replaced. If it was killed or stopped from outside, its
// successor repeats the interrupted command from the slots before it, and nothing is lost. If an
// env killed it, that env's row is invalid and the env goes on as the failure policy says. Envs
// whose steps cannot be repeated have all failed when their worker ends, in whatever way.
#pragma once

#include <mutex>

#include "flotilla/env/process_protocol.h"
#include "flotilla/env/slot_vec_env.h"
#include "flotilla/env/worker_process.h"

namespace flotilla {

class ProcessVecEnv final : public SlotVecEnv {
 public:
  ProcessVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
                ArenaLayout layout);
  ~ProcessVecEnv() override;

  void wait(int group) override;
  bool ready(int group) const override;
  Bell* step_bell() override { return &segment_.control->done_bell; }
  void look_after() override;
  std::vector<FailureReport> take_failures() override;
  double cpu_seconds() const override;
  std::vector<pid_t> worker_pids() const override;

 private:
  struct Worker {
    pid_t pid = -1;
    // What was last seen of it, and since when: no change for long means it hangs.
    uint64_t progress = 0;
    uint64_t since_ns = 0;
    uint64_t stopped_ns = 0;  // when it was first seen stopped by a signal; 0: it is not
    int deaths = 0;           // over the same work
    uint64_t done_at_death = UINT64_MAX;
  };

  void start_request(const Request& request) override;
  void finish_request(const Request& request) override;
  std::byte* current_bank(int group) const override;

  void fill_control(size_t control_offset);
  void start_all();
  void start_worker(int index);
  void wait_until_ready(int index);
  void require_no_start_error(int index) const;
  [[noreturn]] void ended_while_starting(int index, int status) const;
  [[noreturn]] void cannot_start(int index, const std::string& how,
                                 ErrorCode code = ErrorCode::kEnvironment) const;
  void require_workers() const;
  void look_after_workers();
  void look_at(int index);
  bool is_hung(int index);
  int deaths_in_a_row(int index);
  void replace(int index, const Death& death);
  void blame(int index, int env, const std::string& cause);
  bool lose_others(int index, int culprit, const std::string& cause);
  void retire_rest(int index);
  void forget_attempt(int index);
  FailureNote note_of(int index, int env) const;
  bool is_done(int index, int group) const;
  bool is_idle(int index) const;
  uint64_t progress_of(int index) const;
  int culprit(int index) const;
  void kill_worker(int index);
  void stop_all();

  const bool repeatable_;  // EnvType
  const std::vector<std::string> worker_command_;
  FieldId<Control> control_;
  FieldId<Channel> channels_;
  FieldId<char> config_;
  Segment segment_;
  Patience patience_;
  std::mutex mutex_;  // of what follows and of failures: actors of several threads step groups
  std::vector<Worker> workers_;
  double reaped_cpu_s_ = 0;  // of workers that are gone
  PostMortem post_mortem_;
  uint64_t last_look_ns_ = 0;
  bool broken_ = false;  // workers were lost for good
};

}  // namespace flotilla
