#include "flotilla/train/evaluator.h"

#include <algorithm>
#include <cmath>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

namespace flotilla {
namespace {

constexpr int kEnvsAtOnce = 128;
// Keeps evaluation's seeds apart from training's.
constexpr uint64_t kSeedOffset = 0x5851F42D4C957F2D;

void summarise(const std::vector<double>& returns, Evaluation& result) {
  const auto n = static_cast<double>(returns.size());
  for (const double r : returns) result.mean += r / n;
  for (const double r : returns) result.std += (r - result.mean) * (r - result.mean);
  result.std = n > 1 ? std::sqrt(result.std / (n - 1)) : 0;
  result.ci95 = 1.96 * result.std / std::sqrt(n);
  result.episodes = static_cast<int>(returns.size());
}

// Few envs: threads would not pay. A run that survives failures shall not end by one here; an env
// that was dropped would never play its share.
VecOptions vec_options_for(int num_envs, int time_limit, const VecOptions& run) {
  VecOptions options = run;
  if (run.backend == Backend::kThreads) options.backend = Backend::kSerial;
  if (run.on_failure == OnFailure::kDrop) options.on_failure = OnFailure::kRestart;
  options.num_envs = num_envs;
  options.groups = 1;
  options.workers = std::min(run.workers, num_envs);
  options.time_limit = time_limit;
  return options;
}

}  // namespace

Schema EvalOptions::schema() {
  Schema schema;
  schema.integer("episodes", 100, {0, 1'000'000}, "episodes at the end of a run; 0: none")
      .boolean("deterministic", true, "the likeliest action instead of a sampled one");
  return schema;
}

EvalOptions EvalOptions::from(const Config& config, const std::string& prefix, uint64_t run_seed) {
  return {.episodes = static_cast<int>(config.get_integer(prefix + "episodes")),
          .deterministic = config.get_boolean(prefix + "deterministic"),
          .seed = run_seed + kSeedOffset,
          .vec = {}};
}

Evaluation evaluate(const EnvType& type, const Config& env_config, int time_limit,
                    const Policy& policy, const EvalOptions& options) {
  Evaluation result;
  if (options.episodes == 0) return result;
  const uint64_t start = now_ns();
  const int n = std::min(options.episodes, kEnvsAtOnce);
  const VecOptions vec_options = vec_options_for(n, time_limit, options.vec);
  ArenaLayout layout;
  Rollout rollout(layout, type.make_kernel(env_config, time_limit)->spec(), n, 1);
  const auto vec = make_vec_env(type, env_config, vec_options, layout);
  rollout.attach(vec->arena());
  vec->reset(options.seed, rollout.first_view());

  // Env i plays the i-th share of the episodes.
  std::vector<int> left(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i)
    left[static_cast<size_t>(i)] = part_of({0, options.episodes}, i, n).size();
  std::vector<double> returns, lengths;
  Draw draw{.seed = options.seed, .step = 0, .epsilon = 0, .greedy = options.deterministic};
  while (static_cast<int>(returns.size()) < options.episodes) {
    if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
    policy.act(0,
               {.count = n,
                .first_env = 0,
                .obs = rollout.obs,
                .mask = rollout.mask,
                .action = rollout.actions(0),
                .latent = rollout.latent},
               draw);
    ++draw.step;
    vec->begin(0, {rollout.actions(0)}, rollout.view(0));
    vec->wait(0);
    rollout.harvest(0, {0, n});
    for (const Episode& episode : rollout.take_episodes()) {
      if (left[static_cast<size_t>(episode.env)]-- <= 0) continue;
      returns.push_back(static_cast<double>(episode.episode_return));
      lengths.push_back(episode.length);
    }
    rollout.final_obs.clear();
    rollout.final_rows.clear();
    rollout.carry_over();
  }
  summarise(returns, result);
  for (const double length : lengths)
    result.mean_length += length / static_cast<double>(lengths.size());
  result.wall_s = static_cast<double>(now_ns() - start) * 1e-9;
  return result;
}

}  // namespace flotilla
