// The serial and the threads back end: the caller steps its share of the envs itself, in wait().
// Envs that step together do so in wait(), too: what they begin alone is done by then, the common
// stage has the threads for itself, and then each env ends its step.
//
// Cores are not equally fast all the time (another program, another guest of the machine), and a
// step is as slow as its slowest share. So the shares of a large batch follow the speed of the
// threads, a little every few steps; who steps an env never changes what comes out. Envs that play
// alone are cut into more pieces than there are threads, and who is done takes pieces of others.
//
// Threads beyond the cores are called where envs make their threads wait, which is measured now and
// then; else they would only take turns.
#pragma once

#include "flotilla/core/thread_pool.h"
#include "flotilla/env/slot_vec_env.h"
#include "flotilla/env/waiting.h"
#include "flotilla/env/watchdog.h"

namespace flotilla {

class LocalVecEnv final : public SlotVecEnv {
 public:
  LocalVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
              const ArenaLayout& layout);

  // Envs that step together, or learn together while they step, do not play alone.
  bool plays() const override { return stage_ == nullptr && memory() == nullptr; }
  void play(Play& play) override;
  void set_episode_observer(EpisodeObserver observer) override;
  ThreadPool* team() override { return pool_.threads() > 1 ? &pool_ : nullptr; }
  StageTime stage_time() const override { return stage_time_; }
  std::string stage_name() const override { return stage_ == nullptr ? "" : stage_->name(); }

 private:
  class HandedOver;
  struct alignas(64) Share {
    Span envs;
    uint64_t least_ns = UINT64_MAX;  // that one step took since the shares were cut
  };
  struct Job {
    LocalVecEnv* owner = nullptr;
    Request request;
    int ticket = 0;
    bool prepares = false;  // the first half of a step with a common stage
    bool measured = false;  // how long its threads wait
    Hands hands = Hands::kCores;
    std::vector<Share> shares;  // by part
    int steps = 0;              // since the shares were cut
  };

  bool acts_in_parts() const override { return true; }
  void start_request(const Request& request) override;
  void finish_request(const Request& request) override;
  std::byte* current_bank(int) const override { return bank(0); }
  bool has_threads_beyond_cores() const { return lanes() > pool_.threads(Hands::kCores); }
  void choose_hands(Job& job);
  void settle_waiting() { hands_ = waiting_.settle() ? Hands::kAll : Hands::kCores; }
  void cut(Job& job) const;
  int start_parts(Job& job);
  void run_part(Job& job, int part);
  void cut_anew(Job& job) const;
  LoopCall call_in(int part, int group) const;

  Job jobs_[kMaxGroups];
  Waiting waiting_;
  Hands hands_ = Hands::kAll;  // of what begins next; all until waiting was measured
  int until_measured_ = 0;     // steps
  EpisodeObserver observer_;
  std::unique_ptr<Watchdog> watchdog_;
  StageTime stage_time_;
  ThreadPool pool_;                   // behind all that its threads use: they end before it
  std::unique_ptr<LoopStage> stage_;  // null where envs step alone; only wait() uses it, and it
                                      // the pool
};

}  // namespace flotilla
