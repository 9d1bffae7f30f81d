#include "env/local_vec_env.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/log.h"

namespace flotilla {

Watchdog::Watchdog(std::vector<const Lane*> lanes, std::string env_name, double timeout_s)
    : lanes_(std::move(lanes)),
      env_name_(std::move(env_name)),
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
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stop_; })) {
    for (size_t i = 0; i < lanes_.size(); ++i) look(*lanes_[i], sights_[i]);
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
  log::error(fmt::format("env {} of '{}' hangs: in the same {} for {:.1f} s", env, env_name_,
                         lane.phase.load() == Phase::kReset ? "reset" : "step", seconds),
             {{"remedy", "run it with backend=processes, where a hung worker is replaced"}});
}

LocalVecEnv::LocalVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
                         const ArenaLayout& layout)
    : VecEnv(type, config, options),
      pool_(options.backend == Backend::kThreads ? options.threads : 1) {
  allocate(layout, Arena::Backing::kPrivate, pool_.threads(), 1);
  std::vector<const Lane*> watched;
  for (int i = 0; i < lanes(); ++i) {
    for (int g = 0; g < groups(); ++g) watched.push_back(&lane(i, g));
  }
  watchdog_ = std::make_unique<Watchdog>(watched, env_name_, options.step_timeout_s);
}

void LocalVecEnv::start_request(const Request& request) {
  Job& job = jobs_[request.group];
  job.owner = this;
  job.request = request;
  job.ticket = pool_.start(
      [](void* context, int part) {
        const Job& job = *static_cast<Job*>(context);
        job.owner->run_part(job.request, part);
      },
      &job);
}

void LocalVecEnv::finish_request(const Request& request) {
  pool_.finish(jobs_[request.group].ticket);
}

void LocalVecEnv::run_part(const Request& request, int part) {
  const KernelCall call{.in = bank(0),
                        .out = bank(0),
                        .actions = request.actions,
                        .view = request.view,
                        .notes = notes(),
                        .lane = &lane(part, request.group),
                        .on_failure = options_.on_failure,
                        .seed = request.seed};
  const Span envs = lane_span(group(request.group), lanes(), part);
  if (request.op == Request::Op::kReset) {
    kernel_->reset(envs, call);
  } else {
    kernel_->step(envs, call);
  }
}

}  // namespace flotilla
