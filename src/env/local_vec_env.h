// The serial and the threads back end: the caller steps its share of the envs itself, in wait().
#pragma once

#include "core/thread_pool.h"
#include "env/vec_env.h"
#include "env/watchdog.h"

namespace flotilla {

class LocalVecEnv final : public VecEnv {
 public:
  LocalVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
              const ArenaLayout& layout);

  ThreadPool* team() override { return pool_.threads() > 1 ? &pool_ : nullptr; }

 private:
  struct Job {
    LocalVecEnv* owner = nullptr;
    Request request;
    int ticket = 0;
  };

  void start_request(const Request& request) override;
  void finish_request(const Request& request) override;
  std::byte* current_bank(int) const override { return bank(0); }
  void run_part(const Request& request, int part);

  Job jobs_[kMaxGroups];
  std::unique_ptr<Watchdog> watchdog_;
  ThreadPool pool_;  // last: its threads end before anything they use
};

}  // namespace flotilla
