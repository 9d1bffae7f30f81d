// Names the env that hangs in this process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/env/env_loop.h"

namespace flotilla {

// Looks now and then whether a lane has been in one env for too long, and says which. A thread
// cannot be stopped from outside, so saying it is all it does.
class Watchdog {
 public:
  // `first_env`: the number of the env that lanes call 0.
  Watchdog(std::vector<const Lane*> lanes, std::string env_name, int first_env, double timeout_s);
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
  const int first_env_;
  const double timeout_s_;
  std::vector<Sight> sights_;  // one per lane
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace flotilla
