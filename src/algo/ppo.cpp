#include "flotilla/algo/ppo.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

// Of what `x` says of these rows. Several sums side by side: one long chain of additions would take
// longer than an epoch's GAE.
template <class Number>
Moments moments_over(std::span<const int32_t> rows, const Number& x) {
  constexpr size_t kSums = 8;
  double sum[kSums] = {}, squares[kSums] = {};
  for (size_t i = 0; i < rows.size(); ++i) sum[i % kSums] += x(rows[i]);
  const auto n = static_cast<double>(rows.size());
  const double mean = rows.empty() ? 0 : std::accumulate(sum, sum + kSums, 0.0) / n;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double d = x(rows[i]) - mean;
    squares[i % kSums] += d * d;
  }
  return {.count = n, .mean = mean, .squares = std::accumulate(squares, squares + kSums, 0.0)};
}

Moments numbers_of(const float* x, std::span<const int32_t> rows) {
  return moments_over(rows, [x](int32_t row) { return static_cast<double>(x[row]); });
}

AdvantageRange range_of(const Moments& moments) {
  return {moments.mean, 1 / (std::sqrt(moments.variance()) + 1e-8)};
}

// What the values of these rows miss of their targets.
Moments error_moments(const float* value, const float* target, std::span<const int32_t> rows) {
  return moments_over(rows,
                      [=](int32_t row) { return static_cast<double>(target[row] - value[row]); });
}

double explained_variance(const RowMoments& moments) {
  return moments.target.squares > 0 ? 1 - moments.error.squares / moments.target.squares : 0;
}

}  // namespace

Ppo::Ppo(Policy& policy, ThreadPool& pool, const PpoOptions& options, uint64_t seed)
    : policy_(policy), pool_(pool), options_(options), seed_(seed), own_blocks_(options.blocks) {}

// The objective keeps an update near the policy that it begins with, so that it may go as far as
// one of PPO's; how far that policy lies from the one that acted is in the advantages. Where it
// lies farther than a clip, the edge of that clip takes its place: else updates in a row would all
// go on in the direction of the same data.
void Ppo::estimate_by_vtrace(const Batch& batch, const Samples& near, double clip) {
  const Trajectory& trajectory = batch.trajectory;
  const auto rho = static_cast<float>(options_.rho_clip);
  const auto lowest = static_cast<float>(std::log1p(-std::min(clip, 1.0)));
  const auto highest = static_cast<float>(std::log1p(clip));
  const auto steps = static_cast<size_t>(trajectory.steps);
  std::vector<int32_t> every_row(trajectory.rows());
  std::iota(every_row.begin(), every_row.end(), 0);
  old_logprob_.resize(every_row.size());
  value_.resize(every_row.size());
  last_value_.resize(static_cast<size_t>(trajectory.envs));
  policy_.evaluate(pool_, near, every_row,
                   {.logprob = old_logprob_.data(), .value = value_.data()});
  const std::byte* last = batch.samples.obs + every_row.size() * policy_.spec().obs_bytes();
  policy_.value(0, last, trajectory.envs, last_value_.data());
  const VtraceOptions options{.gamma = options_.gamma,
                              .lambda = options_.lambda,
                              .rho = options_.rho_clip,
                              .c = options_.c_clip};
  pool_.for_each(pool_.threads(), [&](int, int part) {
    const Span envs = part_of({0, trajectory.envs}, part, pool_.threads());
    std::vector<int32_t> row(steps);
    std::vector<float> value(steps), log_ratio(steps), advantage(steps), target(steps);
    for (int env = envs.begin; env < envs.end; ++env) {
      for (size_t t = 0; t < steps; ++t) {
        const size_t at = t * static_cast<size_t>(trajectory.envs) + static_cast<size_t>(env);
        row[t] = static_cast<int32_t>(at);
        value[t] = value_[at];
        log_ratio[t] = old_logprob_[at] - batch.logprob[at];
      }
      vtrace(trajectory,
             {.steps = trajectory.steps,
              .row = row.data(),
              .value = value.data(),
              .log_ratio = log_ratio.data(),
              .last_value = last_value_[static_cast<size_t>(env)]},
             options, advantage.data(), target.data());
      for (size_t t = 0; t < steps; ++t) {
        const auto at = static_cast<size_t>(row[t]);
        const float acted = batch.logprob[at];
        old_logprob_[at] = std::clamp(old_logprob_[at], acted + lowest, acted + highest);
        advantage_[at] = std::min(rho, std::exp(old_logprob_[at] - acted)) * advantage[t];
        target_[at] = target[t];
      }
    }
  });
}

const float* Ppo::old_logprob(const Batch& batch) const {
  return options_.returns == Returns::kVtrace ? old_logprob_.data() : batch.logprob;
}

const float* Ppo::old_value(const Batch& batch) const {
  return options_.returns == Returns::kVtrace ? value_.data() : batch.trajectory.value;
}

void Ppo::estimate(const Batch& batch, const Samples& near, double clip) {
  const Trajectory& trajectory = batch.trajectory;
  advantage_.resize(trajectory.rows());
  target_.resize(trajectory.rows());
  if (options_.returns == Returns::kVtrace) return estimate_by_vtrace(batch, near, clip);
  pool_.for_each(pool_.threads(), [&](int, int part) {
    const Span envs = part_of({0, trajectory.envs}, part, pool_.threads(), 16);
    if (options_.returns == Returns::kGae) {
      estimate_advantages(trajectory, envs, options_.gamma, options_.lambda, advantage_.data(),
                          target_.data());
    } else {
      monte_carlo_returns(trajectory, envs, options_.gamma, target_.data());
    }
  });
  if (options_.returns == Returns::kMonteCarlo) normalise_returns(trajectory);
}

void Ppo::normalise_returns(const Trajectory& trajectory) {
  std::vector<Moments> own;
  for (const auto& rows : rows_) own.push_back(moments_of(target_.data(), rows));
  Moments all;
  for (const Moments& block : gathered(*blocks_, own)) all.merge(block);
  normalise(target_.data(), trajectory.valid, trajectory.rows(), all, options_.returns_epsilon);
}

void Ppo::choose_rows(const Trajectory& trajectory) {
  const bool all = std::memchr(trajectory.valid, 0, trajectory.rows()) == nullptr;
  const std::pair shape(trajectory.steps, trajectory.envs);
  if (all && all_of_ == shape) return;
  all_of_ = all ? shape : std::pair(0, 0);
  rows_.resize(static_cast<size_t>(blocks_->own()));
  for (int b = 0; b < blocks_->own(); ++b) {
    std::vector<int32_t>& rows = rows_[static_cast<size_t>(b)];
    const Span envs = blocks_->part(trajectory.envs, b);
    rows.resize(static_cast<size_t>(trajectory.steps) * static_cast<size_t>(envs.size()) + 1);
    size_t count = 0;  // a row that is not valid is written over by the next
    for (int t = 0; t < trajectory.steps; ++t) {
      for (int env = envs.begin; env < envs.end; ++env) {
        const int32_t row = t * trajectory.envs + env;
        rows[count] = row;
        count += trajectory.valid[row] != 0 ? 1 : 0;
      }
    }
    rows.resize(count);
  }
}

RowMoments Ppo::moments_of_all(const Batch& batch, int epochs) {
  const bool together = options_.advantage_scale == AdvantageScale::kBatch;
  std::vector<RowMoments> own(rows_.size());
  constexpr int kKinds = 3;
  const int shuffles = begin_shuffles(epochs);
  pool_.for_each(shuffles + kKinds * blocks_->own(), [&](int, int i) {
    if (i < shuffles) return shuffle_one(i);
    i -= shuffles;
    const auto block = static_cast<size_t>(i / kKinds);
    const std::vector<int32_t>& rows = rows_[block];
    RowMoments& moments = own[block];
    switch (i % kKinds) {
      case 0:
        moments.error = error_moments(old_value(batch), target_.data(), rows);
        break;
      case 1:
        moments.target = numbers_of(target_.data(), rows);
        break;
      default:
        if (together) moments.advantage = numbers_of(advantage_.data(), rows);
    }
  });
  RowMoments all;
  block_rows_.clear();
  for (const RowMoments& block : gathered(*blocks_, own)) {
    all.advantage.merge(block.advantage);
    all.target.merge(block.target);
    all.error.merge(block.error);
    block_rows_.push_back(static_cast<int>(block.target.count));
  }
  return all;
}

int Ppo::begin_shuffles(int epochs) {
  const int items = epochs * blocks_->own();
  if (shuffled_.size() < static_cast<size_t>(items)) shuffled_.resize(static_cast<size_t>(items));
  return items;
}

void Ppo::shuffle_one(int item) {
  // Blocks have streams far apart; those of the first are those of a run without blocks.
  constexpr int kBlockShift = 40;
  const int own = blocks_->own(), epoch = item / own, block = item % own;
  std::vector<int32_t>& rows = shuffled_[static_cast<size_t>(item)];
  rows = rows_[static_cast<size_t>(block)];
  const auto of_run = static_cast<uint64_t>(blocks_->mine().begin + block);
  const uint64_t index =
      (of_run << kBlockShift) + first_shuffle_ + shuffles_ + static_cast<uint64_t>(epoch);
  shuffle(rows, seed_, stream_of(Purpose::kShuffle, index));
}

void Ppo::deal(int epochs, const Moments& advantage) {
  shuffles_ += static_cast<uint64_t>(epochs);
  const int wanted = options_.minibatch_size > 0
                         ? (all_rows() + options_.minibatch_size - 1) / options_.minibatch_size
                         : options_.minibatches;
  // Rows may be missing where envs failed, but never all of a minibatch.
  parts_ = std::min(std::ranges::max(block_rows_), wanted);
  minibatches_.resize(static_cast<size_t>(epochs) * static_cast<size_t>(parts_));
  for (size_t i = 0; i < minibatches_.size(); ++i) {
    const int part = static_cast<int>(i) % parts_;
    int rows = 0;
    for (const int all : block_rows_) rows += part_of({0, all}, part, parts_).size();
    minibatches_[i] = {.epoch = static_cast<int>(i) / parts_, .part = part, .rows = rows};
  }
  if (options_.returns == Returns::kMonteCarlo) return;
  if (options_.advantage_scale == AdvantageScale::kMinibatch) return scale_minibatches();
  if (options_.advantage_scale == AdvantageScale::kNone) return;
  for (Minibatch& minibatch : minibatches_) minibatch.range = range_of(advantage);
}

void Ppo::scale_minibatches() {
  const auto count = static_cast<int>(minibatches_.size()), own = blocks_->own();
  std::vector<Moments> moments(static_cast<size_t>(count * own));
  pool_.for_each(count * own, [&](int, int i) {
    const Minibatch& minibatch = minibatches_[static_cast<size_t>(i % count)];
    moments[static_cast<size_t>(i)] = numbers_of(advantage_.data(), rows_of(minibatch, i / count));
  });
  const std::vector<Moments> all = gathered(*blocks_, moments);
  for (size_t i = 0; i < minibatches_.size(); ++i) {
    Moments together;
    for (size_t at = i; at < all.size(); at += minibatches_.size()) together.merge(all[at]);
    minibatches_[i].range = range_of(together);
  }
}

std::span<const int32_t> Ppo::rows_of(const Minibatch& minibatch, int block) const {
  const auto& rows = shuffled_[static_cast<size_t>(minibatch.epoch * blocks_->own() + block)];
  const Span span = part_of({0, static_cast<int>(rows.size())}, minibatch.part, parts_);
  return std::span(rows).subspan(static_cast<size_t>(span.begin), static_cast<size_t>(span.size()));
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
  choose_rows(batch.trajectory);
  update.clip = options_.clip.at(progress.fraction);
  estimate(batch, near.samples, update.clip);
  const int epochs = options_.separate ? options_.value_epochs : options_.epochs;
  const RowMoments moments = moments_of_all(batch, epochs);
  if (all_rows() == 0) throw Error(ErrorCode::kEnvironment, "no row of the rollout is valid");
  update.explained_variance = explained_variance(moments);
  update.advantage_s = seconds_since(start);

  update.lr = options_.lr.at(progress.fraction);
  update.entropy_coef = options_.entropy.at(progress.fraction);
  update.epsilon = static_cast<double>(batch.samples.epsilon);
  if (options_.separate) {
    PpoUpdate value;
    run_phase(near, {Nets::kCritic, options_.value_epochs, options_.value_lr, moments.advantage},
              value);
    const int shuffles = begin_shuffles(options_.policy_epochs);
    pool_.for_each(shuffles, [&](int, int i) { shuffle_one(i); });
    run_phase(near, {Nets::kActor, options_.policy_epochs, update.lr, moments.advantage}, update);
    update.value_loss = value.value_loss;
  } else {
    run_phase(near, {Nets::kBoth, options_.epochs, update.lr, moments.advantage}, update);
  }
  update.update_s = seconds_since(start) - update.advantage_s;
  return update;
}

PpoObjective Ppo::objective(const Batch& batch, const PpoUpdate& update) const {
  PpoObjective objective;
  objective.old_logprob = old_logprob(batch);
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

LossSums Ppo::gradient(const Samples& samples, const Minibatch& minibatch, Nets nets,
                       const PpoObjective& loss) {
  const auto of_block = [&](int block) {
    return policy_.gradient(pool_, samples, rows_of(minibatch, block), nets, loss);
  };
  if (blocks_->count() == 1) return of_block(0);
  const auto own = static_cast<size_t>(blocks_->own());
  const size_t size = policy_.gradient_count(nets);
  gradients_.assign(own * size, 0.0F);
  std::vector<double> sums(own * Objective::kSums);
  for (size_t b = 0; b < own; ++b) {
    if (rows_of(minibatch, static_cast<int>(b)).empty()) continue;
    const LossSums found = of_block(static_cast<int>(b));
    policy_.read_gradient({gradients_.data() + b * size, size});
    std::copy_n(found.of, Objective::kSums, sums.data() + b * Objective::kSums);
  }
  LossSums all;
  gradient_.resize(size);
  blocks_->add_up(gradients_, sums, gradient_, all.of);
  policy_.write_gradient(nets, gradient_);
  return all;
}

void Ppo::run_phase(const Batch& batch, const Phase& phase, PpoUpdate& update) {
  deal(phase.epochs, phase.advantage);
  PpoObjective loss = objective(batch, update);
  const GradientStep step{.lr = phase.lr,
                          .max_grad_norm = options_.max_grad_norm,
                          .rule = Adam{.beta1 = options_.adam_beta1,
                                       .beta2 = options_.adam_beta2,
                                       .epsilon = options_.adam_epsilon}};
  const bool watch_kl = options_.target_kl > 0 && phase.nets != Nets::kCritic;
  const auto rows = static_cast<double>(all_rows());
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
    const auto size = static_cast<double>(minibatch.rows);
    loss.advantage_mean = static_cast<float>(minibatch.range.mean);
    loss.advantage_scale = static_cast<float>(minibatch.range.inverse_deviation);
    loss.row_weight = static_cast<float>(1 / size);
    const LossSums found = gradient(batch.samples, minibatch, phase.nets, loss);
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
  return {
      .name = name,
      .summary = summary,
      .faster = faster,
      .schema = PpoOptions::schema(returns),
      .needs = {.values = returns != Returns::kVtrace},
      .allows_lag = returns == Returns::kVtrace,
      .blocks =
          [returns](const Config& section) { return PpoOptions::from(section, returns).blocks; },
      .minibatch =
          [returns](const Config& section, int64_t rows) {
            return PpoOptions::from(section, returns).rows_of_block(rows);
          },
      .validate =
          [returns](const Config& section, int64_t rows, const NetworkSpec& network) {
            PpoOptions::from(section, returns).validate(rows, network);
          },
      .make =
          [returns](const Config& section, Policy& policy, ThreadPool& pool, uint64_t seed) {
            return std::make_unique<Ppo>(policy, pool, PpoOptions::from(section, returns), seed);
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
