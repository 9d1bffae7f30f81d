#include "flotilla/train/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr int kEnvsAtOnce = 128;
constexpr const char* kNever = "never";
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Evaluation summarise(const std::vector<Episode>& episodes) {
  Evaluation result;
  PresentMeans metrics(episodes.front().metrics.size());
  double n = 0;
  for (const Episode& each : episodes) {
    metrics.add(each.metrics);
    if (!each.valid) continue;
    ++n;
    result.mean += static_cast<double>(each.episode_return);
    result.mean_length += each.length;
  }
  result.metrics = metrics.means();
  result.metrics_ci95 = metrics.ci95();
  result.mean /= n;
  result.mean_length /= n;
  for (const Episode& each : episodes) {
    if (!each.valid) continue;
    const double distance = static_cast<double>(each.episode_return) - result.mean;
    result.std += distance * distance;
  }
  result.std = n > 1 ? std::sqrt(result.std / (n - 1)) : kNaN;  // one episode has none
  result.ci95 = 1.96 * result.std / std::sqrt(n);
  result.episodes = static_cast<int>(episodes.size());
  return result;
}

// Few envs: threads would not pay, but for what batched ones do together. A run that survives
// failures shall not end by one here; an env that was dropped would never play its share.
VecOptions vec_options_for(const EnvType& type, int num_envs, const VecOptions& run) {
  VecOptions options = run;
  if (run.backend == Backend::kThreads && !type.batched) options.backend = Backend::kSerial;
  if (run.on_failure == OnFailure::kDrop) options.on_failure = OnFailure::kRestart;
  options.num_envs = num_envs;
  options.replicas = 1;
  options.groups = 1;
  options.workers = std::min(run.workers, num_envs);
  return options;
}

double parse_stop_at(const std::string& key, const std::string& text) {
  if (text == kNever) return std::numeric_limits<double>::infinity();
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    throw Error(ErrorCode::kUsage,
                key + ": expected a number or '" + kNever + "', got " + in_quotes(text));
  }
  return number;
}

}  // namespace

uint64_t eval_seed(uint64_t run_seed) { return run_seed + 0x5851F42D4C957F2D; }

Schema EvalOptions::schema() {
  Schema schema;
  schema.integer("episodes", 100, {0, 1'000'000}, "episodes of an evaluation; 0: none")
      .boolean("deterministic", true, "the likeliest action instead of a sampled one")
      .integer("every", 0, {0, INT32_MAX}, "updates between evaluations; 0: only one at the end")
      .text("stop_at", kNever, "mean return of an evaluation at which training ends")
      .integer("patience", 0, {0, INT32_MAX},
               "evaluations without a better one after which training ends; 0: it does not");
  return schema;
}

EvalOptions EvalOptions::from(const Config& config, const std::string& prefix, uint64_t run_seed) {
  EvalOptions options{
      .episodes = static_cast<int>(config.get_integer(prefix + "episodes")),
      .deterministic = config.get_boolean(prefix + "deterministic"),
      .every = static_cast<int>(config.get_integer(prefix + "every")),
      .stop_at = parse_stop_at(prefix + "stop_at", config.get_text(prefix + "stop_at")),
      .patience = static_cast<int>(config.get_integer(prefix + "patience")),
      .seed = eval_seed(run_seed),
      .vec = {}};
  const bool early = std::isfinite(options.stop_at) || options.patience > 0;
  if (early && (options.every == 0 || options.episodes == 0)) {
    throw Error(ErrorCode::kUsage, prefix + "stop_at and " + prefix +
                                       "patience need evaluations: " + prefix + "every and " +
                                       prefix + "episodes above 0");
  }
  return options;
}

Evaluator::Evaluator(const EnvType& type, const Config& env_config, const EvalOptions& options)
    : options_(options), envs_(std::min(options.episodes, kEnvsAtOnce)) {
  if (envs_ == 0) return;
  ArenaLayout layout;
  const EnvSpec spec = type.make_kernel(env_config, options.vec.time_limit)->spec();
  endless_ = spec.time_limit == 0;
  VecOptions vec = vec_options_for(type, envs_, options.vec);
  if (endless_) vec.time_limit = kLongestEvaluated;
  rollout_ = std::make_unique<Rollout>(layout, spec, envs_, 1);
  vec_ = make_vec_env(type, env_config, vec, layout);
  rollout_->attach(vec_->arena());
}

Evaluation Evaluator::play(const Policy& policy, bool may_stop) {
  if (envs_ == 0) return {};
  const uint64_t start = now_ns();
  vec_->reset(options_.seed, rollout_->first_view());
  rollout_->take_episodes();
  // Env i plays the i-th share of the episodes.
  std::vector<int> left;
  for (int i = 0; i < envs_; ++i) left.push_back(part_of({0, options_.episodes}, i, envs_).size());
  std::vector<Episode> episodes;
  Draw draw{.seed = options_.seed, .step = 0, .epsilon = 0, .greedy = options_.deterministic};
  while (static_cast<int>(episodes.size()) < options_.episodes) {
    if (may_stop && interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
    step(policy, draw);
    ++draw.step;
    for (Episode& episode : rollout_->take_episodes()) {
      if (left[static_cast<size_t>(episode.env)]-- > 0) episodes.push_back(std::move(episode));
    }
  }
  if (endless_) warn_of_cut(episodes);
  if (std::ranges::none_of(episodes, &Episode::valid)) {
    throw Error(ErrorCode::kEnvironment,
                "evaluation: every episode of '" + vec_->spec().name + "' ended invalid");
  }
  Evaluation result = summarise(episodes);
  if (!std::isfinite(result.mean)) {
    throw Error(ErrorCode::kNumeric, "evaluation: the return of an episode of '" +
                                         vec_->spec().name + "' is not finite");
  }
  result.wall_s = static_cast<double>(now_ns() - start) * 1e-9;
  return result;
}

void Evaluator::warn_of_cut(const std::vector<Episode>& episodes) const {
  const auto cut = std::ranges::count_if(
      episodes, [](const Episode& each) { return each.length >= kLongestEvaluated; });
  if (cut == 0) return;
  log::warn("evaluation: the env has no time limit, episodes were cut",
            {{"env", vec_->spec().name},
             {"cut", fmt::format("{} of {}", cut, episodes.size())},
             {"steps", std::to_string(kLongestEvaluated)}});
}

void Evaluator::step(const Policy& policy, const Draw& draw) {
  policy.act(0,
             {.count = envs_,
              .first_env = 0,
              .obs = rollout_->obs,
              .mask = rollout_->mask,
              .action = rollout_->actions(0),
              .latent = rollout_->latent},
             draw);
  vec_->begin(0, {rollout_->actions(0)}, rollout_->view(0));
  vec_->wait(0);
  rollout_->harvest(0, {0, envs_});
  rollout_->final_obs.clear();
  rollout_->final_rows.clear();
  rollout_->carry_over();
}

}  // namespace flotilla
