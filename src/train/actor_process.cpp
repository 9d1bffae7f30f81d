#include "flotilla/train/actor_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/python_env.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/policy_file.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

constexpr const char* kLearner = "the learner";

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

ActorProcess::ActorProcess(const Registry& registry, const Algorithms& algorithms,
                           const PolicyFactory& policy_factory, Collective& learner,
                           const ActorOptions& options)
    : learner_(learner), welcome_(introduced()) {
  run_ = std::make_unique<const RunConfig>(settings(registry, algorithms, options));
  VecOptions envs = run_->vec;
  envs.num_envs = welcome_.num_envs;
  envs.first_env = welcome_.first_env;
  ArenaLayout layout;
  rollout_ =
      std::make_unique<Rollout>(layout, run_->spec, envs.num_envs, run_->n_steps, run_->threads);
  policy_ = make_policy(run_->network, {.kind = run_->policy,
                                        .device = "cpu",
                                        .parts = run_->threads,
                                        .seed = run_->seed,
                                        .factory = policy_factory});
  vec_ = make_vec_env(run_->type, run_->env_config, envs, layout);
  rollout_->attach(vec_->arena());
  if (vec_->team() == nullptr) pool_ = std::make_unique<ThreadPool>(run_->threads);
  collector_ = std::make_unique<Collector>(*vec_, *rollout_, *policy_, run_->algorithm.needs,
                                           welcome_.seed, pool_.get());
  collector_->reset(welcome_.seed);
  returns_ = RewardNormaliser(static_cast<size_t>(envs.num_envs), welcome_.gamma);
}

ActorWelcome ActorProcess::introduced() {
  broadcast_bytes(learner_, encode(ActorHello{.version = kVersionLine, .host = host_name()}), 1);
  ActorWelcome welcome = read_welcome(broadcast_bytes(learner_, {}, 0, kLargestWelcome));
  if (welcome.refusal.empty()) return welcome;
  learner_.end();
  throw Error(ErrorCode::kUsage, welcome.refusal);
}

// Of libenv the learner would name the library, too.
void ActorProcess::require_allowed(const std::string& env, const std::string& allowed) const {
  if (!is_outside_env(env) || (is_python_env(env) && env == allowed)) return;
  const std::string name = in_quotes(env);
  throw Error(
      ErrorCode::kUsage,
      fmt::format("the learner asks for environments of {}, which are programs: an actor "
                  "starts none that another machine names{}",
                  name, is_python_env(env) ? "; to allow this one, give --env " + name : ""));
}

// Those of the run, but for how this process carries them out.
RunConfig ActorProcess::settings(const Registry& registry, const Algorithms& algorithms,
                                 const ActorOptions& options) const {
  // Before the settings are read: what such an environment knows is asked of its program.
  require_allowed(env_name_in(welcome_.config, kLearner), options.env);
  Config config = parse_run_config(registry, welcome_.config, kLearner, algorithms);
  const EnvType& type = env_of(registry, config);
  const int most = std::max(welcome_.num_envs, 1);
  const int threads = std::min(options.threads > 0 ? options.threads : cpu_count(), most);
  const int unasked = type.worker_command ? threads : 0;
  const int workers = std::min(options.workers > 0 ? options.workers : unasked, most);
  for (const auto& [key, text] : {std::pair<const char*, std::string>{"cluster.listen", ""},
                                  {"backend", workers > 0 ? "processes" : "threads"},
                                  {"workers", std::to_string(workers)},
                                  {"device", "cpu"},
                                  {"groups", "1"},
                                  {"crash_dir", ""},
                                  {"threads", std::to_string(threads)}}) {
    config.set(key, text);
  }
  return RunConfig(type, config, algorithms);
}

void ActorProcess::take_policy(const ActorReport& report) {
  broadcast_bytes(learner_, encode(report, *rollout_), 1);
  const ActorPolicy sent = read_policy(broadcast_bytes(learner_, {}, 0, kLargestPolicy));
  load_policy(decode_policy(sent.model, kLearner), *policy_);
  version_ = sent.version;
}

void ActorProcess::play(const std::function<void(int64_t steps)>& after) {
  take_policy({});
  for (int64_t steps = rollout_->rows();; steps += rollout_->rows()) {
    collector_->collect(0);
    if (interrupted()) {
      broadcast_bytes(learner_, encode({.state = ActorState::kLeaving}, *rollout_), 1);
      learner_.end();
      stop_if_interrupted();
    }
    std::vector<double> before = returns_.returns();
    std::vector<uint8_t> ended(static_cast<size_t>(rollout_->rows()));
    for (size_t i = 0; i < ended.size(); ++i) {
      ended[i] = rollout_->terminated[i] | rollout_->truncated[i];
    }
    returns_.update(rollout_->horizon(), rollout_->reward, ended.data(), rollout_->valid);
    take_policy({.state = ActorState::kColumns,
                 .version = version_,
                 .failures = static_cast<int64_t>(vec_->take_failures().size()),
                 .returns = std::move(before)});
    rollout_->take_episodes();
    rollout_->carry_over();
    after(steps);
  }
}

}  // namespace flotilla
