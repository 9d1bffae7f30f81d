#include "flotilla/env/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "flotilla/core/clock.h"
#include "flotilla/core/log.h"

namespace flotilla {
namespace {

constexpr double kLateLook = 0.05;  // seconds between two looks that a busy machine makes of less

}  // namespace

Watchdog::Watchdog(std::vector<const Lane*> lanes, std::string env_name, int first_env,
                   double timeout_s)
    : lanes_(std::move(lanes)),
      env_name_(std::move(env_name)),
      first_env_(first_env),
      timeout_s_(timeout_s),
      sights_(lanes_.size()),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::watch() {
  const std::chrono::duration<double> period(std::min(timeout_s_ / 4, 5.0));
  uint64_t looked_ns = now_ns();
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stop_; })) {
    // A long time between two looks: this process was stopped, and its lanes with it.
    const bool was_stopped = seconds_since(looked_ns) > std::max(2 * period.count(), kLateLook);
    looked_ns = now_ns();
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (was_stopped) sights_[i].since_ns = looked_ns;
      look(*lanes_[i], sights_[i]);
    }
  }
}

void Watchdog::look(const Lane& lane, Sight& sight) const {
  const int32_t env = lane.env.load(std::memory_order_relaxed);
  const uint32_t calls = lane.calls.load(std::memory_order_relaxed);
  if (env < 0 || env != sight.env || calls != sight.calls) {
    sight = {.env = env, .calls = calls, .since_ns = now_ns(), .named = false};
    return;
  }
  const double seconds = static_cast<double>(now_ns() - sight.since_ns) * 1e-9;
  if (sight.named || seconds < timeout_s_) return;
  sight.named = true;
  log::error(fmt::format("env {} of '{}' hangs: in the same {} for {:.1f} s", first_env_ + env,
                         env_name_, lane.phase.load() == Phase::kReset ? "reset" : "step", seconds),
             {{"remedy", "run it with backend=processes, where a hung worker is replaced"}});
}

}  // namespace flotilla
