#include "flotilla/env/actor_vec_env.h"

namespace flotilla {

ActorVecEnv::ActorVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
                         const ArenaLayout& layout)
    : SlotVecEnv(type, config, options) {
  allocate(layout, Arena::Backing::kPrivate, 1, 1);
  std::vector<const Lane*> watched;
  for (int g = 0; g < groups(); ++g) watched.push_back(&lane(0, g));
  watchdog_ =
      std::make_unique<Watchdog>(watched, env_name_, options.first_env, options.step_timeout_s);
}

void ActorVecEnv::wait(int group) {
  const Request& request = end_step(group);
  finish_request(request);
  if (lane(0, group).failures.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(reports_);
  take_notes(request);
}

std::vector<FailureReport> ActorVecEnv::take_failures() {
  const std::lock_guard lock(reports_);
  return SlotVecEnv::take_failures();
}

void ActorVecEnv::finish_request(const Request& request) {
  const LoopCall call{.in = bank(0),
                      .out = bank(0),
                      .actions = request.actions,
                      .view = request.view,
                      .notes = notes(),
                      .lane = &lane(0, request.group),
                      .on_failure = options_.on_failure,
                      .seed = request.seed,
                      .first_env = options_.first_env,
                      .replicas = options_.replicas};
  if (request.work == Work::kReset) {
    loop_->reset(group(request.group), call);
  } else {
    loop_->step(group(request.group), call);
  }
}

}  // namespace flotilla
