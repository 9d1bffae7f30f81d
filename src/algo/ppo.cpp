#include "flotilla/algo/ppo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/algo/advantage.h"
#include "flotilla/algo/ppo_objective.h"
#include "flotilla/algo/shuffle.h"
#include "flotilla/algo/vtrace.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

// Several sums side by side: one long chain of additions would take longer than an epoch's GAE.
AdvantageRange range_of(const float* x, std::span<const int32_t> rows) {
  constexpr size_t kSums = 8;
  double sum[kSums] = {}, squares[kSums] = {};
  for (size_t i = 0; i < rows.size(); ++i) sum[i % kSums] += static_cast<double>(x[rows[i]]);
  const auto n = static_cast<double>(rows.size());
  const double mean = std::accumulate(sum, sum + kSums, 0.0) / n;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double d = static_cast<double>(x[rows[i]]) - mean;
    squares[i % kSums] += d * d;
  }
  const double variance = std::accumulate(squares, squares + kSums, 0.0) / std::max(n - 1, 1.0);
  return {mean, 1 / (std::sqrt(variance) + 1e-8)};
}

double explained_variance(const float* value, const float* target, std::span<const int32_t> rows) {
  const auto n = static_cast<double>(rows.size());
  double mean_target = 0, mean_error = 0, target_squares = 0, error_squares = 0;
  for (const int32_t i : rows) {
    mean_target += static_cast<double>(target[i]) / n;
    mean_error += static_cast<double>(target[i] - value[i]) / n;
  }
  for (const int32_t i : rows) {
    const double t = static_cast<double>(target[i]) - mean_target;
    const double e = static_cast<double>(target[i] - value[i]) - mean_error;
    target_squares += t * t;
    error_squares += e * e;
  }
  return target_squares > 0 ? 1 - error_squares / target_squares : 0;
}

}  // namespace

Schema PpoOptions::schema(Returns returns) {
  const PpoOptions d;
  const bool vtrace = returns == Returns::kVtrace;
  Schema schema;
  schema.number("gamma", d.gamma, {0, 1}, "discount of future rewards");
  if (vtrace) {
    schema.number("lambda", 1, {0, 1}, "decay of what comes back from later steps")
        .alias("gae_lambda")
        .number("rho_clip", d.rho_clip, {0, 1e9}, "largest ratio in the error of a step")
        .number("c_clip", d.c_clip, {0, 1e9}, "largest ratio in what comes back from later steps");
  } else {
    schema.number("gae_lambda", d.lambda, {0, 1}, "decay of generalised advantage estimation")
        .alias("lambda")
        .choice("returns", "gae", {"gae", "monte_carlo"},
                "what values and advantages are made from")
        .number("returns_epsilon", d.returns_epsilon, {0, 1},
                "added to the std of Monte-Carlo returns");
  }
  schema
      .choice("normalize_advantage", "minibatch", {"none", "batch", "minibatch"},
              "over which rows; true is minibatch, false is none")
      .alias("advantage_scale")
      .synonym("true", "minibatch")
      .synonym("false", "none")
      .integer("n_epochs", d.epochs, {1, 1000}, "passes over a rollout")
      .alias("epochs")
      .alias("update_epochs")
      .integer("minibatches", d.minibatches, {1, 1'000'000}, "parts of each pass")
      .alias("num_minibatches")
      .integer("batch_size", d.minibatch_size, {0, 1'000'000'000},
               "rows of each part; 0: as minibatches says")
      .alias("minibatch_size");
  Schedule::add_to(schema, "learning_rate", 3e-4, {0, 1}, "step size of Adam", "lr");
  Schedule::add_to(schema, "clip_range", 0.2, {0, 10}, "range of the probability ratio", "clip");
  Schedule::add_to(schema, "ent_coef", 0.01, {0, 10}, "weight of the entropy bonus", "entropy");
  if (!vtrace) {
    Schedule::add_to(schema, "epsilon", 0, {0, 1}, "probability spread evenly over open choices");
  }
  schema.number("vf_coef", d.value_coef, {0, 1000}, "weight of the squared value error")
      .alias("value_coef")
      .number("clip_range_vf", d.value_clip, {0, 1e9},
              "range a value may move in an update; 0: any")
      .alias("value_clip")
      .number("max_grad_norm", d.max_grad_norm, {0, 1e9}, "gradients are clipped to this; 0: not")
      .number("target_kl", d.target_kl, {0, 1e9}, "an update ends beyond this divergence; 0: never")
      .number("adam_beta1", d.adam_beta1, {0, 0.999999}, "decay of the gradient's mean")
      .number("adam_beta2", d.adam_beta2, {0, 0.999999}, "decay of the gradient's square")
      .number("adam_epsilon", d.adam_epsilon, {1e-12, 1}, "added to the gradient's std");
  if (vtrace) return schema;
  schema
      .choice("phases", "joint", {"joint", "separate"},
              "one loss, or first the value and then the policy")
      .integer("value_epochs", d.value_epochs, {1, 1000}, "passes of the value phase")
      .integer("policy_epochs", d.policy_epochs, {1, 1000}, "passes of the policy phase")
      .number("value_learning_rate", d.value_lr, {0, 1}, "step size of the value phase")
      .alias("value_lr");
  return schema;
}

PpoOptions PpoOptions::from(const Config& section, Returns returns) {
  const auto number = [&](const char* key) { return section.get_number(key); };
  const auto integer = [&](const char* key) { return static_cast<int>(section.get_integer(key)); };
  const std::string& scale = section.get_text("normalize_advantage");
  PpoOptions o;
  o.gamma = number("gamma");
  o.advantage_scale = scale == "none"    ? AdvantageScale::kNone
                      : scale == "batch" ? AdvantageScale::kBatch
                                         : AdvantageScale::kMinibatch;
  o.epochs = integer("n_epochs");
  o.minibatches = integer("minibatches");
  o.minibatch_size = integer("batch_size");
  o.lr = Schedule::from(section, "learning_rate");
  o.clip = Schedule::from(section, "clip_range");
  o.entropy = Schedule::from(section, "ent_coef");
  o.value_coef = number("vf_coef");
  o.value_clip = number("clip_range_vf");
  o.max_grad_norm = number("max_grad_norm");
  o.target_kl = number("target_kl");
  o.adam_beta1 = number("adam_beta1");
  o.adam_beta2 = number("adam_beta2");
  o.adam_epsilon = number("adam_epsilon");
  if (returns == Returns::kVtrace) {
    o.section = "appo";
    o.returns = returns;
    o.lambda = number("lambda");
    o.rho_clip = number("rho_clip");
    o.c_clip = number("c_clip");
    return o;
  }
  o.lambda = number("gae_lambda");
  o.returns = section.get_text("returns") == "gae" ? Returns::kGae : Returns::kMonteCarlo;
  o.returns_epsilon = number("returns_epsilon");
  o.epsilon = Schedule::from(section, "epsilon");
  o.separate = section.get_text("phases") == "separate";
  o.value_epochs = integer("value_epochs");
  o.policy_epochs = integer("policy_epochs");
  o.value_lr = number("value_learning_rate");
  return o;
}

void PpoOptions::validate(int64_t batch, const NetworkSpec& network) const {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::kUsage, why); };
  if (minibatch_size > batch) {
    refuse(
        fmt::format("{}.batch_size {} is larger than a rollout of {} rows (n_steps x "
                    "num_envs)",
                    section, minibatch_size, batch));
  }
  if (minibatch_size == 0 && minibatches > batch) {
    refuse(fmt::format("{}.minibatches {} is more than a rollout's {} rows (n_steps x num_envs)",
                       section, minibatches, batch));
  }
  if (separate && network.has_common_layers()) {
    refuse(
        "ppo.phases=separate needs net.shared=false and net.torso=none: the value's phase would "
        "change the policy");
  }
  if (separate && returns == Returns::kMonteCarlo) {
    refuse("ppo.phases=separate needs ppo.returns=gae: Monte-Carlo advantages follow the value");
  }
  if (network.action.is_box() && (epsilon.first > 0 || epsilon.last > 0)) {
    refuse("ppo.epsilon needs a discrete action space");
  }
}

Ppo::Ppo(Policy& policy, ThreadPool& pool, const PpoOptions& options, uint64_t seed)
    : policy_(policy), pool_(pool), options_(options), seed_(seed) {}

void Ppo::estimate_by_vtrace(const Batch& batch, const Samples& near) {
  const Trajectory& trajectory = batch.trajectory;
  const auto steps = static_cast<size_t>(trajectory.steps);
  rows_.resize(trajectory.rows());
  std::iota(rows_.begin(), rows_.end(), 0);
  logprob_.resize(rows_.size());
  value_.resize(rows_.size());
  last_value_.resize(static_cast<size_t>(trajectory.envs));
  policy_.evaluate(pool_, near, rows_, {.logprob = logprob_.data(), .value = value_.data()});
  const std::byte* last = batch.samples.obs + rows_.size() * policy_.spec().obs_bytes();
  policy_.value(0, last, trajectory.envs, last_value_.data());
  const VtraceOptions options{.gamma = options_.gamma,
                              .lambda = options_.lambda,
                              .rho = options_.rho_clip,
                              .c = options_.c_clip,
                              .policy_rho = options_.rho_clip};
  pool_.run([&](int part) {
    const Span envs = part_of({0, trajectory.envs}, part, pool_.threads());
    std::vector<int32_t> row(steps);
    std::vector<float> value(steps), log_ratio(steps), advantage(steps), target(steps);
    for (int env = envs.begin; env < envs.end; ++env) {
      for (size_t t = 0; t < steps; ++t) {
        const size_t at = t * static_cast<size_t>(trajectory.envs) + static_cast<size_t>(env);
        row[t] = static_cast<int32_t>(at);
        value[t] = value_[at];
        log_ratio[t] = logprob_[at] - batch.logprob[at];
      }
      vtrace(trajectory,
             {.steps = trajectory.steps,
              .row = row.data(),
              .value = value.data(),
              .log_ratio = log_ratio.data(),
              .last_value = last_value_[static_cast<size_t>(env)]},
             options, advantage.data(), target.data());
      for (size_t t = 0; t < steps; ++t) {
        advantage_[static_cast<size_t>(row[t])] = advantage[t];
        target_[static_cast<size_t>(row[t])] = target[t];
      }
    }
  });
}

const float* Ppo::old_value(const Batch& batch) const {
  return options_.returns == Returns::kVtrace ? value_.data() : batch.trajectory.value;
}

void Ppo::estimate(const Batch& batch, const Samples& near) {
  const Trajectory& trajectory = batch.trajectory;
  advantage_.resize(trajectory.rows());
  target_.resize(trajectory.rows());
  if (options_.returns == Returns::kVtrace) return estimate_by_vtrace(batch, near);
  pool_.run([&](int part) {
    const Span envs = part_of({0, trajectory.envs}, part, pool_.threads(), 16);
    if (options_.returns == Returns::kGae) {
      estimate_advantages(trajectory, envs, options_.gamma, options_.lambda, advantage_.data(),
                          target_.data());
    } else {
      monte_carlo_returns(trajectory, envs, options_.gamma, target_.data());
    }
  });
  if (options_.returns == Returns::kMonteCarlo) {
    normalise(target_.data(), trajectory.valid, trajectory.rows(), options_.returns_epsilon);
  }
}

void Ppo::choose_rows(const Trajectory& trajectory) {
  rows_.clear();
  for (size_t i = 0; i < trajectory.rows(); ++i) {
    if (trajectory.valid[i] != 0) rows_.push_back(static_cast<int32_t>(i));
  }
}

void Ppo::deal(int epochs) {
  const uint64_t first = first_shuffle_ + shuffles_;
  if (static_cast<int>(shuffled_.size()) < epochs) shuffled_.resize(static_cast<size_t>(epochs));
  pool_.for_each(epochs, [&](int, int e) {
    std::vector<int32_t>& rows = shuffled_[static_cast<size_t>(e)];
    rows = rows_;
    shuffle(rows, seed_, stream_of(Purpose::kShuffle, first + static_cast<uint64_t>(e)));
  });
  shuffles_ += static_cast<uint64_t>(epochs);

  const auto rows = static_cast<int>(rows_.size());
  const int wanted = options_.minibatch_size > 0
                         ? (rows + options_.minibatch_size - 1) / options_.minibatch_size
                         : options_.minibatches;
  // Rows may be missing where envs failed, but never all of a minibatch.
  const int parts = std::min(rows, wanted);
  minibatches_.resize(static_cast<size_t>(epochs) * static_cast<size_t>(parts));
  const bool scaled = options_.returns != Returns::kMonteCarlo;
  const bool apart = scaled && options_.advantage_scale == AdvantageScale::kMinibatch;
  const bool together = scaled && options_.advantage_scale == AdvantageScale::kBatch;
  const AdvantageRange common = together ? range_of(advantage_.data(), rows_) : AdvantageRange{};
  pool_.for_each(epochs * parts, [&](int, int i) {
    const Span span = part_of({0, rows}, i % parts, parts);
    Minibatch& minibatch = minibatches_[static_cast<size_t>(i)];
    minibatch.epoch = i / parts;
    minibatch.rows = {shuffled_[static_cast<size_t>(minibatch.epoch)].data() + span.begin,
                      static_cast<size_t>(span.size())};
    minibatch.range = apart ? range_of(advantage_.data(), minibatch.rows) : common;
  });
}

Update Ppo::learn(const Batch& batch, const LearnProgress& progress) {
  const PpoUpdate u = update(batch, progress);
  return {.advantage_s = u.advantage_s,
          .update_s = u.update_s,
          .apply_s = u.apply_s,
          .first_ratio_error = u.first_ratio_error,
          .metrics = {{"charts/learning_rate", u.lr},
                      {"losses/policy_loss", u.policy_loss},
                      {"losses/value_loss", u.value_loss},
                      {"losses/entropy", u.entropy},
                      {"losses/approx_kl", u.approx_kl},
                      {"losses/clipfrac", u.clip_fraction},
                      {"losses/explained_variance", u.explained_variance},
                      {"losses/grad_norm", u.grad_norm},
                      {"schedule/clip", u.clip},
                      {"schedule/entropy", u.entropy_coef},
                      {"schedule/epsilon", u.epsilon}}};
}

double Ppo::passes() const {
  return options_.separate ? 0.5 * (options_.value_epochs + options_.policy_epochs)
                           : options_.epochs;
}

PpoUpdate Ppo::update(const Batch& batch, const LearnProgress& progress) {
  constexpr uint64_t kShufflesPerUpdate = 4096;
  PpoUpdate update;
  const uint64_t start = now_ns();
  first_shuffle_ = progress.updates * kShufflesPerUpdate;
  shuffles_ = 0;
  Batch near = batch;
  near.samples = policy_.bring(pool_, batch.samples, batch.trajectory.rows());
  estimate(batch, near.samples);
  choose_rows(batch.trajectory);
  if (rows_.empty()) throw Error(ErrorCode::kEnvironment, "no row of the rollout is valid");
  update.explained_variance = explained_variance(old_value(batch), target_.data(), rows_);
  update.advantage_s = seconds_since(start);

  update.lr = options_.lr.at(progress.fraction);
  update.clip = options_.clip.at(progress.fraction);
  update.entropy_coef = options_.entropy.at(progress.fraction);
  update.epsilon = static_cast<double>(batch.samples.epsilon);
  if (options_.separate) {
    PpoUpdate value;
    run_phase(near, {Nets::kCritic, options_.value_epochs, options_.value_lr}, value);
    run_phase(near, {Nets::kActor, options_.policy_epochs, update.lr}, update);
    update.value_loss = value.value_loss;
  } else {
    run_phase(near, {Nets::kBoth, options_.epochs, update.lr}, update);
  }
  update.update_s = seconds_since(start) - update.advantage_s;
  return update;
}

PpoObjective Ppo::objective(const Batch& batch, const PpoUpdate& update) const {
  PpoObjective objective;
  objective.old_logprob = batch.logprob;
  objective.old_value = old_value(batch);
  objective.advantage = advantage_.data();
  objective.target = target_.data();
  objective.advantage_from_value = options_.returns == Returns::kMonteCarlo;
  objective.clip = static_cast<float>(update.clip);
  objective.value_clip = static_cast<float>(options_.value_clip);
  objective.value_coef = static_cast<float>(options_.value_coef);
  objective.entropy_coef = static_cast<float>(update.entropy_coef);
  return objective;
}

void Ppo::run_phase(const Batch& batch, const Phase& phase, PpoUpdate& update) {
  deal(phase.epochs);
  PpoObjective loss = objective(batch, update);
  const GradientStep step{.lr = phase.lr,
                          .max_grad_norm = options_.max_grad_norm,
                          .rule = Adam{.beta1 = options_.adam_beta1,
                                       .beta2 = options_.adam_beta2,
                                       .epsilon = options_.adam_epsilon}};
  const bool watch_kl = options_.target_kl > 0 && phase.nets != Nets::kCritic;
  const auto rows = static_cast<double>(rows_.size());
  double sums[Objective::kSums] = {}, norms = 0, seen = 0, epoch_kl = 0;
  for (const Minibatch& minibatch : minibatches_) {
    if (minibatch.epoch == update.epochs) {  // the first of an epoch
      if (watch_kl && epoch_kl / rows > options_.target_kl) {
        update.stopped_by_kl = true;
        break;
      }
      epoch_kl = 0;
      ++update.epochs;
    }
    const auto size = static_cast<double>(minibatch.rows.size());
    loss.advantage_mean = static_cast<float>(minibatch.range.mean);
    loss.advantage_scale = static_cast<float>(minibatch.range.inverse_deviation);
    loss.row_weight = static_cast<float>(1 / size);
    const LossSums found = policy_.gradient(pool_, batch.samples, minibatch.rows, phase.nets, loss);
    const uint64_t found_ns = now_ns();
    norms += policy_.apply(pool_, phase.nets, step);
    update.apply_s += seconds_since(found_ns);
    for (int i = 0; i < Objective::kSums; ++i) sums[i] += found[i];
    if (update.minibatches++ == 0) {
      update.first_ratio_error = found[PpoObjective::kRatioError] / size;
    }
    epoch_kl += found[PpoObjective::kKl];
    seen += size;
  }
  update.policy_loss = sums[PpoObjective::kPolicyLoss] / seen;
  update.value_loss = sums[PpoObjective::kValueLoss] / seen;
  update.entropy = sums[PpoObjective::kEntropy] / seen;
  update.approx_kl = sums[PpoObjective::kKl] / seen;
  update.clip_fraction = sums[PpoObjective::kClipped] / seen;
  update.grad_norm = norms / update.minibatches;
}

namespace {

Algorithm algorithm_of(const char* name, const char* summary, const char* faster, Returns returns) {
  return {.name = name,
          .summary = summary,
          .faster = faster,
          .schema = PpoOptions::schema(returns),
          .needs = {.values = returns != Returns::kVtrace},
          .allows_lag = returns == Returns::kVtrace,
          .validate =
              [returns](const Config& section, int64_t rows, const NetworkSpec& network) {
                PpoOptions::from(section, returns).validate(rows, network);
              },
          .make =
              [returns](const Config& section, Policy& policy, ThreadPool& pool, uint64_t seed) {
                return std::make_unique<Ppo>(policy, pool, PpoOptions::from(section, returns),
                                             seed);
              }};
}

}  // namespace

Algorithm ppo_algorithm() {
  return algorithm_of("ppo", "proximal policy optimisation", "lower ppo.epochs", Returns::kGae);
}

Algorithm appo_algorithm() {
  return algorithm_of("appo", "proximal policy optimisation on V-trace targets",
                      "lower appo.n_epochs", Returns::kVtrace);
}

}  // namespace flotilla
