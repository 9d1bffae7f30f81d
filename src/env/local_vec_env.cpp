#include "env/local_vec_env.h"

namespace flotilla {

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
