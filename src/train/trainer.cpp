#include "flotilla/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "flotilla/core/clock.h"
#include "flotilla/core/endpoint.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/c10d.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/train/learner_threads.h"
#include "flotilla/train/news.h"

namespace flotilla {
namespace {

constexpr size_t kRecentEpisodes = 100;

// Before any of it is allocated.
void require_room(size_t rollout_bytes, const AsyncOptions& async) {
  const uint64_t available = available_memory_bytes();
  if (rollout_bytes * static_cast<uint64_t>(async.ring) <= available) return;
  const uint64_t fit = available / rollout_bytes;
  const std::string instead = fit == 0      ? "lower n_steps or num_envs"
                              : async.fixed ? fmt::format("async.lag={} does", fit - 1)
                                            : fmt::format("async.ring={} does", fit);
  throw Error(
      ErrorCode::kUsage,
      fmt::format("a ring of {} rollouts, {} each, does not fit in the {} of memory that are "
                  "available: {}",
                  async.ring, human_bytes(rollout_bytes), human_bytes(available), instead));
}

}  // namespace

Trainer::Trainer(const RunConfig& run)
    : run_(run),
      own_envs_(run.own_envs()),
      blocks_(run.blocks(), *run.cluster.collective, run.cluster.sum),
      start_ns_(now_ns()) {
  ArenaLayout layout;
  const bool ahead = run.asynchronous();
  for (int i = 0; i < (ahead ? run.async.ring : 1); ++i) {
    ring_.push_back(std::make_unique<Rollout>(layout, run.spec, own_envs_.num_envs, run.n_steps,
                                              ahead ? run.vec.groups : run.threads));
    if (ahead && i == 0) require_room(layout.bytes(), run.async);
  }
  if (ahead && !run.remote()) {
    seat_ = std::make_unique<Rollout>(layout, run.spec, own_envs_.num_envs, 1);
  }
  rollout_ = ring_.front().get();
  policy_ = make_policy(run.network, {.kind = run.policy,
                                      .device = run.device,
                                      .parts = run.threads,
                                      .seed = run.seed,
                                      .factory = run.policy_factory});
  vec_ = make_vec_env(run.type, run.env_config, own_envs_, layout);
  if (vec_->memory() != nullptr && processes().size() > 1) vec_->memory()->share();
  for (const auto& rollout : ring_) rollout->attach(vec_->arena());
  if (seat_ != nullptr) seat_->attach(vec_->arena());
  if (vec_->team() == nullptr) own_pool_ = std::make_unique<ThreadPool>(run.threads, run.vec.pin);
  if (ahead) {
    if (vec_->memory() != nullptr) {
      throw Error(ErrorCode::kUsage,
                  "backend: expected serial or threads, not actors: the envs of '" + run.type.name +
                      "' learn together");
    }
    if (!run.remote()) {
      actors_ = std::make_unique<Actors>(*vec_, ring_, *seat_, *policy_, pool(),
                                         run.algorithm.needs, run.async, run.seed);
    }
  } else {
    collector_ = std::make_unique<Collector>(*vec_, *rollout_, *policy_, run.algorithm.needs,
                                             run.seed, &pool());
  }
  if (const int threads = learner_threads(); threads != pool().threads()) {
    learner_pool_ = std::make_unique<ThreadPool>(threads, run.vec.pin);
  }
  learner_ = run.algorithm.make(run.algo_config, *policy_, learner_pool(), run.seed);
  if (run.exploration.on()) {
    learner_ = with_exploration(std::move(learner_), run.network, run.exploration);
  }
  learner_->share(blocks_);
  if (actors_ != nullptr) actors_->learn_by(learner_->in_actors());
  if (run.normalise_reward) {
    policy_->reward_normaliser() =
        RewardNormaliser(static_cast<size_t>(own_envs_.num_envs), learner_->gamma());
  }
  if (actors_ != nullptr) actors_->reset(run.env_seed);
  if (collector_ != nullptr) collector_->reset(run.env_seed);
  if (run.remote()) listen(run);
  begin_ns_ = now_ns();
  begin_cpu_s_ = cpu_seconds();
  begin_machine_s_ = machine_cpu_seconds();
  timing_.start_s = seconds_since(start_ns_);
}

// The environments here are not stepped: they say what a checkpoint of this run looks like, with
// which it could go on by itself.
void Trainer::listen(const RunConfig& run) {
  vec_->reset(run.env_seed, rollout_->first_view());
  Listener* listener = run.cluster.listener;
  if (listener == nullptr) {
    const Endpoint at = endpoint_from(run.cluster.listen, "cluster.listen");
    listener_ = listen_for_actors(at, run.cluster.deadline_s);
    listener = listener_.get();
  }
  remote_ = std::make_unique<RemoteActors>(run_, ring_, *policy_, learner_->gamma(), *listener);
}

// Threads of the pool may be in the envs.
Trainer::~Trainer() {
  actors_.reset();
  remote_.reset();
}

ThreadPool& Trainer::pool() { return own_pool_ != nullptr ? *own_pool_ : *vec_->team(); }

ThreadPool& Trainer::learner_pool() { return learner_pool_ != nullptr ? *learner_pool_ : pool(); }

// Actors and the learner share their threads, and libtorch has threads of its own.
int Trainer::learner_threads() {
  if (run_.asynchronous() || policy_->implementation().kind != "fused") return pool().threads();
  if (run_.learner_threads > 0) return run_.learner_threads;
  const int64_t rows = int64_t{own_envs_.num_envs} * run_.n_steps;
  const auto& minibatch = run_.algorithm.minibatch;
  return threads_worth(*policy_, minibatch ? minibatch(run_.algo_config, rows) : rows,
                       run_.most_learner_threads);
}

double Trainer::fraction() const {
  double most = 0;
  const auto consider = [&most](double done, double limit) {
    if (limit > 0) most = std::max(most, done / limit);
  };
  consider(static_cast<double>(progress_.steps), static_cast<double>(run_.limits.steps));
  consider(static_cast<double>(progress_.episodes), static_cast<double>(run_.limits.episodes));
  consider(static_cast<double>(progress_.updates), static_cast<double>(run_.limits.updates));
  consider(wall_s(), run_.limits.duration_s);
  return std::min(most, 1.0);
}

// By the limits that say it beforehand.
int64_t Trainer::updates_left() const {
  int64_t left = INT64_MAX;
  const int64_t steps = int64_t{run_.n_steps} * run_.vec.num_envs;
  const auto consider = [&left](int64_t done, int64_t limit, int64_t each) {
    if (limit > 0) left = std::min(left, std::max<int64_t>(1, (limit - done - 1) / each + 1));
  };
  consider(progress_.steps, run_.limits.steps, steps);
  consider(progress_.updates, run_.limits.updates, 1);
  return left;
}

// Wall time passes outside of updates, too: in evaluations and checkpoints.
bool Trainer::finished() const {
  const double duration_s = run_.limits.duration_s;
  const bool out_of_time = duration_s > 0 && wall_s() >= duration_s;
  return progress_.fraction >= 1 || (out_of_time && progress_.updates > 0);
}

void Trainer::train(const UpdateCallback& after) {
  while (!finished()) {
    stop_if_interrupted();
    iterate();
    if (!after(progress_)) return;
  }
}

void Trainer::set_crash_dir(const CrashFolder& folder) {
  run_.vec.crash_dir = run_.eval.vec.crash_dir = folder;
  vec_->set_crash_dir(folder);
}

void Trainer::iterate() {
  give_order(processes(), {.order = Order::kIterate, .fraction = progress_.fraction});
  learn_from_envs(progress_.fraction);
}

void Trainer::follow(const OrderSheet& sheet) {
  if (sheet.order == Order::kIterate) learn_from_envs(sheet.fraction);
  if (sheet.order == Order::kSave) {
    Writer unused;
    save_envs(unused);
  }
}

void Trainer::learn_from_envs(double fraction_done) {
  const uint64_t start = now_ns();
  const LearnProgress progress{.fraction = fraction_done,
                               .updates = static_cast<uint64_t>(progress_.updates)};
  const auto epsilon = static_cast<float>(learner_->epsilon(progress.fraction));
  collect(epsilon);
  rollout_->require_finite(vec_->first_env(), &learner_pool());
  hear_news();
  scale_rewards();
  if (EnvMemory* memory = vec_->memory(); memory != nullptr) {
    if (processes().size() > 1) memory->add_notes(gather_bytes(processes(), memory->take_notes()));
    memory->prepare(progress_.updates + 1);
  }

  const float* rewards = run_.normalise_reward ? scaled_reward_.data() : rollout_->reward;
  progress_.update =
      learner_->learn(rollout_->batch(run_.algorithm.needs, rewards, epsilon), progress);
  if (actors_ != nullptr) report_actors();
  if (remote_ != nullptr) {
    report_lag(remote_->lag());
    progress_.update.metrics.emplace_back("async/actors", remote_->connected());
  }
  timing_.advantage_s += progress_.update.advantage_s;
  timing_.update_s += progress_.update.update_s;
  if (run_.network.normalise_obs) {
    const RowGrid rows{.steps = run_.n_steps, .envs = own_envs_.num_envs, .valid = rollout_->valid};
    if (run_.network.obs_type == ObsType::kFloat32) {
      const auto* obs = reinterpret_cast<const float*>(rollout_->obs);
      policy_->obs_normaliser().update(obs, rows, blocks_);
    } else {
      const auto* obs = reinterpret_cast<const uint8_t*>(rollout_->obs);
      policy_->obs_normaliser().update(obs, rows, blocks_);
    }
  }
  if (actors_ != nullptr) actors_->learnt();
  if (remote_ != nullptr) remote_->learnt();
  if (collector_ != nullptr) rollout_->carry_over();
  const int64_t steps = int64_t{run_.n_steps} * run_.vec.num_envs;  // of all processes
  progress_.steps += steps;
  ++progress_.updates;
  if (EnvMemory* memory = vec_->memory(); memory != nullptr && memory->learn(progress_.updates)) {
    vec_->observe(rollout_->first_view());
  }
  progress_.wall_s = wall_s();
  progress_.fraction = fraction();
  progress_.steps_per_s = static_cast<double>(steps) / seconds_since(start);
}

void Trainer::report_lag(const PolicyLag& lag) {
  Update& update = progress_.update;
  const auto add = [&update](const std::string& name, double value) {
    update.metrics.emplace_back(name, value);
  };
  add("async/lag", lag.mean);
  add("async/lag_max", static_cast<double>(lag.most));
  for (size_t i = 0; i < lag.shares.size(); ++i) {
    const bool is_last = i + 1 == lag.shares.size();
    add("async/lag_" + std::to_string(i) + (is_last ? "_or_more" : ""), lag.shares[i]);
  }
  add("time/gradient_s", update.update_s - update.apply_s);
  add("time/apply_s", update.apply_s);
}

void Trainer::report_actors() {
  const auto add = [this](const std::string& name, double value) {
    progress_.update.metrics.emplace_back(name, value);
  };
  const bool learns_here = learner_->in_actors() == nullptr;
  if (learns_here) report_lag(actors_->lag());
  const ActorTimes times = actors_->take_actor_times();
  add("time/actor_act_s", times.act_s);
  add("time/actor_step_s", times.step_s);
  if (!learns_here) add("time/actor_learn_s", times.learn_s);
  add("time/actor_wait_slot_s", times.slot_s);
  add("time/actor_wait_weights_s", times.weights_s);
  add("time/actor_wait_thread_s", times.thread_s);
  if (learns_here) add("time/actor_hand_over_s", times.hand_over_s);
}

void Trainer::collect(float epsilon) {
  if (actors_ != nullptr) {
    rollout_ = &actors_->next(updates_left());
    const Actors::Times times = actors_->take_times();
    timing_.infer_s += times.act_s;
    timing_.step_s += times.step_s;
    timing_.wait_s += times.wait_s;
    timing_.update_s += times.learn_s;
    return;
  }
  if (remote_ != nullptr) {
    rollout_ = &remote_->next();
    timing_.wait_s += remote_->take_wait_s();
    return;
  }
  const uint64_t waited = pool().waited_ns();
  const StageTime staged = vec_->stage_time();
  collector_->collect(epsilon);
  const Collector::Times times = collector_->take_times();
  const StageTime stage = vec_->stage_time() - staged;
  const double wait_s = static_cast<double>(pool().waited_ns() - waited) * 1e-9 - stage.waited_s;
  timing_.infer_s += times.infer_s;
  timing_.wait_s += wait_s;
  timing_.stage_s += stage.total_s;
  timing_.step_s += std::max(0.0, times.total_s - times.infer_s - wait_s - stage.total_s);
}

void Trainer::take_over(const Trainer& before) {
  policy_->set_parameters(before.policy_->parameters());
  policy_->set_optimiser(before.policy_->optimiser());
  policy_->obs_normaliser().set_moments(before.policy_->obs_normaliser().moments());
  policy_->reward_normaliser().set_moments(before.policy_->reward_normaliser().moments());
  Writer writer;
  before.learner_->save(writer);
  Reader reader(writer.buffer(), "the phase before");
  learner_->load(reader);
  if (vec_->memory() != nullptr) vec_->memory()->set_knowledge(before.knowledge());
  if (actors_ != nullptr) {
    actors_->set_first_step(before.actors_->steps());
  } else {
    collector_->set_steps(before.collector_->steps());
  }
  progress_ = before.progress_;
  progress_.return_mean = progress_.length_mean = progress_.return_best = Progress::kNone;
  timing_ = before.timing_;
  earlier_s_ = before.wall_s() - seconds_since(start_ns_);
}

double Trainer::wall_s() const { return earlier_s_ + seconds_since(start_ns_); }

void Trainer::save_envs(Writer& writer) const {
  policy_->reward_normaliser().save(writer, processes());
  if (processes().size() == 1) return vec_->save(writer);
  Writer own;
  vec_->save(own);
  vec_->join(gather_bytes(processes(), own.buffer()), writer);
}

void Trainer::save(Writer& writer) const {
  give_order(processes(), {.order = Order::kSave});
  writer.u64("steps", static_cast<uint64_t>(progress_.steps));
  writer.u64("episodes", static_cast<uint64_t>(progress_.episodes));
  writer.u64("updates", static_cast<uint64_t>(progress_.updates));
  writer.u64("env_failures", static_cast<uint64_t>(progress_.env_failures));
  writer.f64("wall_s", progress_.wall_s);
  timing_.save(writer);
  writer.f64("return_best", progress_.return_best);
  if (actors_ != nullptr) {
    actors_->pause();
    actors_->save(writer);
  } else if (remote_ != nullptr) {
    remote_->save(writer);
  } else {
    writer.u64("env_steps", collector_->steps());
  }
  writer.u64("recent", recent_.size());
  for (const Episode& episode : recent_) {
    writer.f64("return", static_cast<double>(episode.episode_return));
    writer.u64("length", static_cast<uint64_t>(episode.length));
    writer.bytes("metrics", std::as_bytes(std::span(episode.metrics)));
  }
  policy_->obs_normaliser().save(writer);
  save_envs(writer);
  learner_->save(writer);
}

void Trainer::load(Reader& reader) {
  Progress progress;
  progress.steps = static_cast<int64_t>(reader.u64("steps"));
  progress.episodes = static_cast<int64_t>(reader.u64("episodes"));
  progress.updates = static_cast<int64_t>(reader.u64("updates"));
  progress.env_failures = static_cast<int64_t>(reader.u64("env_failures"));
  progress.wall_s = reader.f64("wall_s");
  Timing timing;
  timing.load(reader);
  progress.return_best = reader.f64("return_best");
  if (actors_ != nullptr) {
    actors_->load(reader);
  } else if (remote_ != nullptr) {
    remote_->load(reader);
  } else {
    collector_->set_steps(reader.u64("env_steps"));
  }
  recent_ = read_episodes(reader);
  policy_->obs_normaliser().load(reader);
  const int all_envs = run_.normalise_reward ? run_.vec.num_envs : 0;
  policy_->reward_normaliser().load(reader, static_cast<size_t>(vec_->first_env()),
                                    static_cast<size_t>(all_envs));
  vec_->load(reader, actors_ != nullptr ? actors_->first_view() : rollout_->first_view());
  learner_->load(reader);
  progress_ = progress;
  timing.start_s = timing_.start_s;
  timing_ = timing;
  earlier_s_ = progress.wall_s;
  average_recent();
  progress_.fraction = fraction();
}

std::deque<Episode> Trainer::read_episodes(Reader& reader) const {
  const uint64_t count = reader.u64("recent");
  if (count > kRecentEpisodes) throw Error(ErrorCode::kData, "too many recent episodes");
  std::deque<Episode> episodes;
  for (uint64_t i = 0; i < count; ++i) {
    Episode& episode = episodes.emplace_back();
    episode.episode_return = static_cast<float>(reader.f64("return"));
    episode.length = static_cast<int32_t>(reader.u64("length"));
    episode.metrics.resize(vec_->spec().metrics.size());
    reader.bytes_into("metrics", std::as_writable_bytes(std::span(episode.metrics)));
  }
  return episodes;
}

void Trainer::hear_news() {
  const int64_t elsewhere = remote_ != nullptr ? remote_->take_failures() : 0;
  const News own{.failures = static_cast<int64_t>(vec_->take_failures().size()) + elsewhere,
                 .interrupted = interrupted(),
                 .episodes = rollout_->take_episodes()};
  News all = gather_news(processes(), own, vec_->first_env());
  progress_.env_failures += all.failures;
  asked_to_stop_ = all.interrupted;
  ended_ = std::move(all.episodes);
  note_episodes();
}

void Trainer::note_episodes() {
  // Until there are 100 episodes, of this phase of a curriculum, the mean of those there are is the
  // best.
  const bool few = recent_.size() < kRecentEpisodes;
  EndedEpisodes& ended = progress_.ended;
  ended = {};
  progress_.episodes += static_cast<int64_t>(ended_.size());
  PresentMeans metrics(vec_->spec().metrics.size());
  EpisodeClusters clusters(run_.vec);
  int64_t valid = 0;
  for (const Episode& episode : ended_) {
    ++ended.count;
    metrics.add(episode.metrics, clusters.next(episode));
    if (!episode.valid) continue;
    const auto weight = 1 / static_cast<double>(++valid);
    const auto include = [weight](double& mean, double value) { mean += (value - mean) * weight; };
    include(ended.return_mean, static_cast<double>(episode.episode_return));
    include(ended.length_mean, episode.length);
    recent_.push_back(episode);
    if (recent_.size() > kRecentEpisodes) recent_.pop_front();
  }
  if (valid == 0) ended.return_mean = ended.length_mean = std::numeric_limits<double>::quiet_NaN();
  ended.metrics = metrics.means();
  ended.metrics_ci95 = metrics.ci95();
  if (recent_.empty()) return;
  average_recent();
  if (few || progress_.return_mean > progress_.return_best) {
    progress_.return_best = progress_.return_mean;
  }
}

void Trainer::average_recent() {
  double sum = 0, length = 0;
  for (const Episode& episode : recent_) {
    sum += static_cast<double>(episode.episode_return);
    length += episode.length;
  }
  const auto count = static_cast<double>(recent_.size());
  progress_.return_mean = count > 0 ? sum / count : Progress::kNone;
  progress_.length_mean = count > 0 ? length / count : Progress::kNone;
}

void Trainer::scale_rewards() {
  if (!run_.normalise_reward) return;
  const auto rows = static_cast<size_t>(rollout_->rows());
  std::vector<uint8_t> ended(rows);
  for (size_t i = 0; i < rows; ++i) {
    ended[i] = rollout_->terminated[i] | rollout_->truncated[i];
  }
  RewardNormaliser& normaliser = policy_->reward_normaliser();
  if (remote_ != nullptr) normaliser.set_returns(remote_->returns());
  normaliser.update(run_.n_steps, rollout_->reward, ended.data(), rollout_->valid, blocks_);
  const float scale = normaliser.scale();
  scaled_reward_.resize(rows);
  for (size_t i = 0; i < rows; ++i) {
    scaled_reward_[i] =
        std::clamp(rollout_->reward[i] * scale, -RewardNormaliser::kClip, RewardNormaliser::kClip);
  }
}

Evaluation Trainer::evaluate(bool may_stop) {
  if (evaluator_ == nullptr) {
    evaluator_ = std::make_unique<Evaluator>(run_.type, run_.eval_config, run_.eval, run_.spec);
  }
  if (evaluator_->memory() != nullptr) evaluator_->memory()->set_knowledge(knowledge());
  if (actors_ != nullptr) actors_->pause();  // the cores are for the evaluation
  const Evaluation result = evaluator_->play(*policy_, may_stop);
  timing_.eval_s += result.wall_s;
  last_eval_s_ = result.wall_s;
  return result;
}

double Trainer::expected_eval_s() const {
  if (last_eval_s_ > 0) return last_eval_s_;
  // Nothing is known of environments that are stepped elsewhere.
  if (remote_ != nullptr) return std::numeric_limits<double>::quiet_NaN();
  const bool known = !recent_.empty();
  const double length = known ? progress_.length_mean : env_spec().time_limit;
  if (!(length > 0) || progress_.steps == 0) return std::numeric_limits<double>::quiet_NaN();
  const double step_s = timing_.collect_s() / static_cast<double>(progress_.steps);
  // Without a common stage one thread evaluates.
  const bool alone = run_.vec.in_threads() && !run_.type.batched;
  return run_.eval.episodes * length * step_s * (alone ? std::min(run_.threads, cpu_count()) : 1);
}

CoreUse Trainer::core_use() const {
  const double own_s = cpu_seconds() - begin_cpu_s_;
  return {.wall_s = seconds_since(begin_ns_),
          .own_s = own_s,
          .others_s = machine_cpu_seconds() - begin_machine_s_ - own_s};
}

std::vector<std::pair<std::string, double>> Trainer::memory_facts() const {
  if (vec_->memory() == nullptr) return {};
  return vec_->memory()->facts();
}

std::vector<std::byte> Trainer::knowledge() const {
  if (vec_->memory() == nullptr) return {};
  return vec_->memory()->knowledge();
}

Timing Trainer::timing() const {
  Timing timing = timing_;
  timing.other_s = std::max(0.0, wall_s() - timing.total_s());
  return timing;
}

std::string Trainer::implementation() const {
  const std::string stage = vec_->stage_name();
  return policy_->implementation().name + (stage.empty() ? "" : "; " + stage);
}

RunShape Trainer::shape() const {
  return {.backend = run_.config.get_text("backend"),
          .policy = policy_->implementation(),
          .faster_updates = run_.algorithm.faster,
          .num_envs = run_.vec.num_envs,
          .threads = run_.threads,
          .learner_threads = learner_pool_ != nullptr ? learner_pool_->threads() : run_.threads,
          .workers = own_envs_.in_workers() ? own_envs_.workers : 0,
          .cores = cpu_count(),
          .env_step_s = progress_.steps > 0 ? timing_.step_s * run_.vec.num_envs /
                                                  static_cast<double>(progress_.steps)
                                            : 0,
          .stage_hint = run_.type.stage_hint,
          .foreign = static_cast<bool>(run_.type.worker_command)};
}

}  // namespace flotilla
