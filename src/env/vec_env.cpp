#include "flotilla/env/vec_env.h"

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/env/actor_vec_env.h"
#include "flotilla/env/local_vec_env.h"
#include "flotilla/env/process_vec_env.h"
#include "flotilla/env/worker_process.h"

namespace flotilla {

void VecEnv::play(Play&) { throw Error(ErrorCode::kInternal, "these envs step together"); }

void VecEnv::set_episode_observer(EpisodeObserver) {
  throw Error(ErrorCode::kUsage,
              "the episodes of '" + spec().name +
                  "' cannot be observed: their states are not in this process (backend: serial and "
                  "threads can)");
}

void VecEnv::join(std::span<const std::vector<std::byte>>, Writer&) const {
  throw Error(ErrorCode::kUsage, "the envs of '" + spec().name + "' are those of one process");
}

double VecEnv::cpu_seconds() const { return process_cpu_seconds(); }

std::unique_ptr<VecEnv> make_vec_env(const EnvType& type, const Config& config,
                                     const VecOptions& options, const ArenaLayout& layout) {
  options.validate();
  options.validate_for(type);
  if (options.in_workers()) {
    require_worker_main();
    return std::make_unique<ProcessVecEnv>(type, config, options, layout);
  }
  if (options.backend == Backend::kActors) {
    return std::make_unique<ActorVecEnv>(type, config, options, layout);
  }
  return std::make_unique<LocalVecEnv>(type, config, options, layout);
}

}  // namespace flotilla
