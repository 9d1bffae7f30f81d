#include "flotilla/train/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr int kEnvsAtOnce = 128;
constexpr int kForeignAtOnce = 16;  // of another program: each may be large
constexpr const char* kNever = "never";
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Evaluation summarise(const std::vector<Episode>& episodes) {
  Evaluation result;
  PresentMeans metrics(episodes.front().metrics.size());
  double n = 0;
  int64_t number = 0;
  for (const Episode& each : episodes) {
    metrics.add(each.metrics, number++);
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

// Few envs: threads would not pay where all of them meet after every step, but for what batched
// ones do together. A run that survives failures shall not end by one here, so what is in workers
// stays there; an env that was dropped would never play its share.
VecOptions vec_options_for(const EnvType& type, int num_envs, const VecOptions& run, int threads) {
  VecOptions options = run;
  if (run.in_threads() && !type.batched) {
    options.backend = threads > 1 ? Backend::kThreads : Backend::kSerial;
    options.threads = threads;
  }
  if (run.in_workers() || type.worker_command) options.backend = Backend::kProcesses;
  if (run.on_failure == OnFailure::kDrop) options.on_failure = OnFailure::kRestart;
  options.purpose = "evaluation";
  options.num_envs = num_envs;
  options.replicas = 1;
  options.groups = 1;
  options.workers = std::clamp(run.workers, 1, num_envs);
  return options;
}

int envs_at_once(const EnvType& type) { return type.worker_command ? kForeignAtOnce : kEnvsAtOnce; }

void stop_if(bool may_stop) {
  if (may_stop && interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
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
      .integer("every", 0, {0, INT32_MAX},
               "updates between evaluations where eval_freq is 0; 0: only one at the end")
      .text("stop_at", kNever, "mean return of an evaluation at which training ends")
      .integer("patience", 0, {0, INT32_MAX},
               "evaluations without a better one after which training ends; 0: it does not");
  return schema;
}

EvalOptions EvalOptions::from(const Config& config, const std::string& prefix, uint64_t run_seed) {
  EvalOptions options{
      .episodes = static_cast<int>(config.get_integer(prefix + "episodes")),
      .deterministic = config.get_boolean(prefix + "deterministic"),
      .freq = config.get_integer("eval_freq"),
      .every = static_cast<int>(config.get_integer(prefix + "every")),
      .stop_at = parse_stop_at(prefix + "stop_at", config.get_text(prefix + "stop_at")),
      .patience = static_cast<int>(config.get_integer(prefix + "patience")),
      .seed = eval_seed(run_seed),
      .first_env = 0,
      .one_each = false,
      .vec = {}};
  const bool early = std::isfinite(options.stop_at) || options.patience > 0;
  const bool evaluated = (options.freq > 0 || options.every > 0) && options.episodes > 0;
  if (early && !evaluated) {
    throw Error(ErrorCode::kUsage, prefix + "stop_at and " + prefix +
                                       "patience need evaluations: eval_freq and " + prefix +
                                       "episodes above 0");
  }
  return options;
}

Evaluator::Evaluator(const EnvType& type, const Config& env_config, const EvalOptions& options)
    : Evaluator(type, env_config, options, type.spec(env_config, options.vec.time_limit)) {}

Evaluator::Evaluator(const EnvType& type, const Config& env_config, const EvalOptions& options,
                     const EnvSpec& spec)
    : type_(type),
      env_config_(env_config),
      options_(options),
      spec_(spec),
      envs_(options.one_each ? options.episodes : std::min(options.episodes, envs_at_once(type))) {
  if (envs_ > 0) seat({0, std::min(envs_, envs_at_once(type))}, 1);
}

void Evaluator::seat(Span envs, int threads) {
  const bool as_they_sit = seated_.begin == envs.begin && seated_.end == envs.end;
  if (vec_ != nullptr && as_they_sit && threads_ == threads) return;
  ArenaLayout layout;
  VecOptions vec = vec_options_for(type_, envs.size(), options_.vec, threads);
  vec.first_env = options_.first_env + envs.begin;
  if (endless()) vec.time_limit = kLongestEvaluated;
  auto rollout = std::make_unique<Rollout>(layout, spec_, envs.size(), 1, threads);
  auto made = make_vec_env(type_, env_config_, vec, layout);
  rollout->attach(made->arena());
  // What envs know, those that follow them shall know.
  if (memory() != nullptr) made->memory()->set_knowledge(memory()->knowledge());
  seated_ = envs;
  threads_ = threads;
  observed_ = false;
  rollout_ = std::move(rollout);
  vec_ = std::move(made);
}

Draw Evaluator::draw_at(uint64_t step) const {
  return {.seed = options_.seed, .step = step, .epsilon = 0, .greedy = options_.deterministic};
}

// 0: envs do not play alone.
int Evaluator::threads_for(const ActingPolicy& policy) const {
  constexpr int kEnvsPerThread = 4;  // at least
  if (observer_ || !policy.rows_are_independent() || vec_ == nullptr || !vec_->plays()) return 0;
  if (options_.vec.backend != Backend::kThreads) return 1;
  const int most = std::min({options_.vec.threads, policy.parts(), envs_ / kEnvsPerThread});
  return std::max(most, 1);
}

Evaluation Evaluator::play(const ActingPolicy& policy, bool may_stop) {
  const int threads = threads_for(policy);
  if (threads == 0) {
    const auto act = [&](const ActRows& rows, uint64_t step) {
      policy.act(0, rows, draw_at(step));
    };
    return play(act, may_stop);
  }
  return play_all(threads, [&](std::vector<Episode>& episodes, Activity& activity) {
    play_alone(policy, may_stop, episodes, activity);
  });
}

Evaluation Evaluator::play(const Player& player, bool may_stop) {
  return play_all(1, [&](std::vector<Episode>& episodes, Activity& activity) {
    play_together(player, may_stop, episodes, activity);
  });
}

Evaluation Evaluator::play_all(int threads, const PlaySeated& play_seated) {
  if (envs_ == 0) return {};
  const uint64_t start = now_ns();
  std::vector<Episode> episodes;
  Activity activity("evaluating");
  const int at_once = envs_at_once(type_);
  for (int first = 0; first < envs_; first += at_once) {
    seat({first, std::min(first + at_once, envs_)}, threads);
    before_ = episodes.size();
    begin_seated();
    play_seated(episodes, activity);
  }
  if (endless()) warn_of_cut(episodes);
  if (std::ranges::none_of(episodes, &Episode::valid)) {
    throw Error(ErrorCode::kEnvironment,
                "evaluation: every episode of '" + spec_.name + "' ended invalid");
  }
  Evaluation result = summarise(episodes);
  if (!std::isfinite(result.mean)) {
    throw Error(ErrorCode::kNumeric,
                "evaluation: the return of an episode of '" + spec_.name + "' is not finite");
  }
  result.wall_s = seconds_since(start);
  return result;
}

// Of all episodes; those that last count by their steps where it is known how many there can be.
double Evaluator::fraction_done(size_t episodes, uint64_t steps) const {
  const auto all = static_cast<double>(options_.episodes);
  const double ended = static_cast<double>(episodes) / all;
  if (endless()) return ended;
  const int each = part_of({0, options_.episodes}, seated_.begin, envs_).size();
  const double seated = static_cast<double>(each) * seated_.size() / all;
  const double before = static_cast<double>(before_) / all;
  const double by_steps =
      static_cast<double>(steps) / (static_cast<double>(each) * spec_.time_limit);
  return std::max(ended, before + seated * std::min(by_steps, 1.0));
}

void Evaluator::tell(Activity& activity, size_t episodes, uint64_t steps) const {
  activity.tell([&] {
    return Status{.fraction = fraction_done(episodes, steps),
                  .facts = {fmt::format("{} of {} episodes", episodes, options_.episodes)}};
  });
}

// Env i plays the i-th share of the episodes.
void Evaluator::begin_seated() {
  left_.clear();
  for (int i = seated_.begin; i < seated_.end; ++i) {
    left_.push_back(part_of({0, options_.episodes}, i, envs_).size());
  }
  observe_seated();
  vec_->reset(options_.seed, rollout_->first_view());
  rollout_->take_episodes();
}

void Evaluator::play_together(const Player& player, bool may_stop, std::vector<Episode>& episodes,
                              Activity& activity) {
  int wanted = std::accumulate(left_.begin(), left_.end(), 0);
  for (uint64_t at = 0; wanted > 0; ++at) {
    stop_if(may_stop);
    step(player, at);
    for (Episode& episode : rollout_->take_episodes()) {
      if (left_[static_cast<size_t>(episode.env)]-- <= 0) continue;
      episodes.push_back(std::move(episode));
      --wanted;
    }
    tell(activity, episodes.size(), at + 1);
  }
}

// Envs that play alone make steps until all of those with them have played their episodes.
void Evaluator::play_alone(const ActingPolicy& policy, bool may_stop,
                           std::vector<Episode>& episodes, Activity& activity) {
  class Alone final : public Play {
   public:
    Alone(Evaluator& evaluator, const ActingPolicy& policy, bool may_stop, Activity& activity)
        : all_(evaluator),
          policy_(policy),
          may_stop_(may_stop),
          activity_(activity),
          ended_(evaluator.before_),
          found_(static_cast<size_t>(evaluator.threads_)) {}

    ActionView actions(int) const override { return {all_.rollout_->actions(0)}; }
    StepView view(int) const override { return all_.rollout_->view(0); }
    void act(int part, int step, Span envs) override {
      stop_if(may_stop_);
      all_.rollout_->open_choices(0, envs);
      policy_.act(part, all_.rows_of(envs), all_.draw_at(static_cast<uint64_t>(step)));
    }
    bool stepped(int part, int step, Span envs) override {
      Rollout& rollout = *all_.rollout_;
      rollout.harvest(0, envs, part);
      for (Episode& episode : rollout.take_episodes(part)) {
        if (all_.left_[static_cast<size_t>(episode.env)]-- <= 0) continue;
        episode.step = step;
        found_[static_cast<size_t>(part)].push_back(std::move(episode));
        ++ended_;
      }
      rollout.cuts(part).clear();
      rollout.carry_over(rollout, envs);
      if (part == 0) all_.tell(activity_, ended_, static_cast<uint64_t>(step) + 1);
      const auto left =
          std::span(all_.left_)
              .subspan(static_cast<size_t>(envs.begin), static_cast<size_t>(envs.size()));
      return std::ranges::any_of(left, [](int episodes) { return episodes > 0; });
    }
    // As they would have ended together.
    void add_to(std::vector<Episode>& episodes) {
      const auto first = static_cast<std::ptrdiff_t>(episodes.size());
      for (auto& found : found_) std::ranges::move(found, std::back_inserter(episodes));
      std::ranges::sort(episodes.begin() + first, episodes.end(), {},
                        [](const Episode& e) { return std::pair(e.step, e.env); });
    }

   private:
    Evaluator& all_;
    const ActingPolicy& policy_;
    const bool may_stop_;
    Activity& activity_;
    std::atomic<size_t> ended_;
    std::vector<std::vector<Episode>> found_;  // by part
  };

  Alone alone(*this, policy, may_stop, activity);
  vec_->play(alone);
  alone.add_to(episodes);
}

void Evaluator::observe_seated() {
  if (observer_) {
    vec_->set_episode_observer([this](int env, const void* state) {
      if (left_[static_cast<size_t>(env)] > 0) observer_(seated_.begin + env, state);
    });
  } else if (observed_) {
    vec_->set_episode_observer(nullptr);
  }
  observed_ = static_cast<bool>(observer_);
}

void Evaluator::warn_of_cut(const std::vector<Episode>& episodes) const {
  const auto cut = std::ranges::count_if(
      episodes, [](const Episode& each) { return each.length >= kLongestEvaluated; });
  if (cut == 0) return;
  log::warn("evaluation: the env has no time limit, episodes were cut",
            {{"env", spec_.name},
             {"cut", fmt::format("{} of {}", cut, episodes.size())},
             {"steps", std::to_string(kLongestEvaluated)}});
}

ActRows Evaluator::rows_of(Span envs) const {
  const auto first = static_cast<size_t>(envs.begin);
  const size_t action_bytes = spec_.action.dims() * sizeof(int32_t);
  uint8_t* mask = rollout_->mask;
  return {.count = envs.size(),
          .first_env = vec_->first_env() + envs.begin,
          .obs = rollout_->obs + first * spec_.obs.row_bytes(),
          .mask = mask == nullptr ? nullptr : mask + first * spec_.action.mask_size(),
          .action = rollout_->actions(0) + first * action_bytes,
          .latent = rollout_->latent + first * action_bytes};
}

void Evaluator::step(const Player& player, uint64_t step) {
  rollout_->open_choices(0, {0, seated_.size()});
  player(rows_of({0, seated_.size()}), step);
  vec_->begin(0, {rollout_->actions(0)}, rollout_->view(0));
  vec_->wait(0);
  rollout_->harvest(0, {0, seated_.size()});
  rollout_->cuts().clear();
  rollout_->carry_over();
}

}  // namespace flotilla
