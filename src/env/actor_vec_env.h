// The back end of actors: a group is stepped by the thread that waits for it, and different groups
// by different threads at once. Nothing is done in step, so a group that is slow holds up no other.
#pragma once

#include <mutex>

#include "flotilla/env/slot_vec_env.h"
#include "flotilla/env/watchdog.h"

namespace flotilla {

class ActorVecEnv final : public SlotVecEnv {
 public:
  ActorVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
              const ArenaLayout& layout);

  void wait(int group) override;
  std::vector<FailureReport> take_failures() override;

 private:
  void start_request(const Request&) override {}
  void finish_request(const Request& request) override;
  std::byte* current_bank(int) const override { return bank(0); }

  std::mutex reports_;  // of failures, which are of all groups
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace flotilla
