// The serial and the threads back end: the caller steps its share of the envs itself, in wait().
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/thread_pool.h"
#include "env/vec_env.h"

namespace flotilla {

// Looks now and then whether a lane has been in one env for too long, and says which. A thread
// cannot be stopped from outside, so saying it is all it does.
class Watchdog {
 public:
  Watchdog(std::vector<const Lane*> lanes, std::string env_name, double timeout_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Sight {
    int32_t env = -1;
    uint32_t calls = 0;
    uint64_t since_ns = 0;
    bool named = false;
  };
  void watch();
  void look(const Lane& lane, Sight& sight) const;

  const std::vector<const Lane*> lanes_;
  const std::string env_name_;
  const double timeout_s_;
  std::vector<Sight> sights_;  // one per lane
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

class LocalVecEnv final : public VecEnv {
 public:
  LocalVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
              const ArenaLayout& layout);

 private:
  struct Job {
    LocalVecEnv* owner = nullptr;
    Request request;
    uint64_t ticket = 0;
  };

  void start_request(const Request& request) override;
  void finish_request(const Request& request) override;
  std::byte* current_bank(int) const override { return bank(0); }
  void run_part(const Request& request, int part);

  ThreadPool pool_;
  Job jobs_[kMaxGroups];
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace flotilla
