#include "flotilla/algo/impala.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/algo/shuffle.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

// Room for one sequence, which every thread keeps.
struct Scratch {
  std::vector<float> log_ratio, advantage, target;
  explicit Scratch(size_t steps) : log_ratio(steps), advantage(steps), target(steps) {}
  void resize(size_t steps) {
    if (log_ratio.size() < steps) *this = Scratch(steps);
  }
};

}  // namespace

Schema ImpalaOptions::schema() {
  const ImpalaOptions d;
  Schema schema;
  schema.number("gamma", d.vtrace.gamma, {0, 1}, "discount of future rewards")
      .number("lambda", d.vtrace.lambda, {0, 1}, "decay of what comes back from later steps")
      .alias("gae_lambda")
      .number("rho_clip", d.vtrace.rho, {0, 1e9}, "largest ratio in the error of a step")
      .number("c_clip", d.vtrace.c, {0, 1e9}, "largest ratio in what comes back from later steps")
      .number("policy_rho_clip", d.policy_rho, {0, 1e9}, "largest ratio in an advantage")
      .integer("n_epochs", d.epochs, {1, 1000}, "passes over a rollout")
      .integer("minibatches", d.minibatches, {1, 1'000'000}, "parts of each pass, of whole envs");
  Schedule::add_to(schema, "learning_rate", 6e-4, {0, 1}, "step size of the optimizer", "lr");
  Schedule::add_to(schema, "ent_coef", 0.01, {0, 10}, "weight of the entropy bonus", "entropy");
  schema.number("vf_coef", d.value_coef, {0, 1000}, "weight of the squared value error")
      .number("max_grad_norm", d.max_grad_norm, {0, 1e9}, "gradients are clipped to this; 0: not")
      .choice("optimizer", "rmsprop", {"rmsprop", "adam"}, "what makes a step of a gradient")
      .number("rmsprop_decay", d.decay, {0, 0.999999}, "decay of the gradient's square")
      .number("optimizer_epsilon", d.epsilon, {1e-12, 1}, "added to the gradient's std");
  return schema;
}

ImpalaOptions ImpalaOptions::from(const Config& section) {
  const auto number = [&](const char* key) { return section.get_number(key); };
  ImpalaOptions o;
  o.vtrace = {.gamma = number("gamma"),
              .lambda = number("lambda"),
              .rho = number("rho_clip"),
              .c = number("c_clip")};
  o.policy_rho = number("policy_rho_clip");
  o.lr = Schedule::from(section, "learning_rate");
  o.entropy = Schedule::from(section, "ent_coef");
  o.value_coef = number("vf_coef");
  o.max_grad_norm = number("max_grad_norm");
  o.epochs = static_cast<int>(section.get_integer("n_epochs"));
  o.minibatches = static_cast<int>(section.get_integer("minibatches"));
  o.rmsprop = section.get_text("optimizer") == "rmsprop";
  o.decay = number("rmsprop_decay");
  o.epsilon = number("optimizer_epsilon");
  return o;
}

void ImpalaObjective::differentiate(const Rows& rows, double* sums) const {
  thread_local Scratch scratch(0);
  const int steps = trajectory.steps;
  scratch.resize(static_cast<size_t>(steps));
  for (int first = 0; first < rows.count; first += steps) {
    const int32_t* sample = rows.sample + first;
    const float *logprob = rows.logprob + first, *value = rows.value + first;
    for (int t = 0; t < steps; ++t) {
      scratch.log_ratio[static_cast<size_t>(t)] = logprob[t] - acting_logprob[sample[t]];
    }
    vtrace(trajectory,
           {.steps = steps,
            .row = sample,
            .value = value,
            .log_ratio = scratch.log_ratio.data(),
            .last_value = last_value[sample[0] % trajectory.envs]},
           correction, scratch.advantage.data(), scratch.target.data());
    for (int t = 0; t < steps; ++t) {
      const auto i = static_cast<size_t>(t);
      const bool valid = trajectory.valid[sample[t]] != 0;
      const float weight = valid ? row_weight : 0;
      const float log_ratio = scratch.log_ratio[i], ratio = std::exp(log_ratio);
      const float advantage = std::min(policy_rho, ratio) * scratch.advantage[i];
      const float error = value[t] - scratch.target[i];
      rows.d_logprob[first + t] = -advantage * weight;
      rows.d_entropy[first + t] = -entropy_coef * weight;
      rows.d_value[first + t] = value_coef * 2 * error * weight;
      if (!valid) continue;
      sums[kPolicyLoss] -= static_cast<double>(advantage * logprob[t]);
      sums[kValueLoss] += static_cast<double>(error * error);
      sums[kEntropy] += static_cast<double>(rows.entropy[first + t]);
      sums[kKl] += static_cast<double>(ratio - 1 - log_ratio);
      sums[kRatioError] += static_cast<double>(std::abs(ratio - 1));
      sums[kRho] += std::min(correction.rho, static_cast<double>(ratio));
    }
  }
}

Impala::Impala(Policy& policy, ThreadPool& pool, const ImpalaOptions& options, uint64_t seed)
    : policy_(policy), pool_(pool), options_(options), seed_(seed) {}

void Impala::choose_rows(const Trajectory& trajectory, std::span<const int32_t> envs) {
  rows_.clear();
  for (const int32_t env : envs) {
    for (int t = 0; t < trajectory.steps; ++t) rows_.push_back(t * trajectory.envs + env);
  }
}

Update Impala::learn(const Batch& batch, const LearnProgress& progress) {
  constexpr uint64_t kShufflesPerUpdate = 4096;
  const uint64_t start = now_ns();
  const Trajectory& trajectory = batch.trajectory;
  ImpalaObjective loss;
  loss.trajectory = trajectory;
  loss.correction = options_.vtrace;
  loss.policy_rho = static_cast<float>(options_.policy_rho);
  loss.acting_logprob = batch.logprob;
  loss.value_coef = static_cast<float>(options_.value_coef);
  loss.entropy_coef = static_cast<float>(options_.entropy.at(progress.fraction));
  GradientStep step{.lr = options_.lr.at(progress.fraction),
                    .max_grad_norm = options_.max_grad_norm,
                    .rule = Adam{.epsilon = options_.epsilon}};
  if (options_.rmsprop) step.rule = RmsProp{.decay = options_.decay, .epsilon = options_.epsilon};

  last_value_.resize(static_cast<size_t>(trajectory.envs));
  envs_.resize(last_value_.size());
  std::iota(envs_.begin(), envs_.end(), 0);
  const std::byte* last_obs = batch.samples.obs + trajectory.rows() * policy_.spec().obs_bytes();
  const Samples near = policy_.bring(pool_, batch.samples, trajectory.rows());
  const int parts = std::min(options_.minibatches, trajectory.envs);
  double sums[Objective::kSums] = {}, norms = 0, seen = 0, ratio_error = 0, apply_s = 0;
  int steps = 0;
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    policy_.value(0, last_obs, trajectory.envs, last_value_.data());
    loss.last_value = last_value_.data();
    if (parts > 1) {
      shuffle(envs_, seed_,
              stream_of(Purpose::kShuffle,
                        progress.updates * kShufflesPerUpdate + static_cast<uint64_t>(epoch)));
    }
    for (int part = 0; part < parts; ++part) {
      const Span mine = part_of({0, trajectory.envs}, part, parts);
      choose_rows(trajectory, std::span(envs_).subspan(static_cast<size_t>(mine.begin),
                                                       static_cast<size_t>(mine.size())));
      const auto valid = static_cast<double>(
          std::ranges::count_if(rows_, [&](int32_t row) { return trajectory.valid[row] != 0; }));
      if (valid == 0) continue;
      loss.row_weight = static_cast<float>(1 / valid);
      const LossSums found = policy_.gradient(pool_, near, rows_, Nets::kBoth, loss);
      const uint64_t found_ns = now_ns();
      norms += policy_.apply(pool_, Nets::kBoth, step);
      apply_s += seconds_since(found_ns);
      for (int i = 0; i < Objective::kSums; ++i) sums[i] += found[i];
      if (steps++ == 0) ratio_error = found[ImpalaObjective::kRatioError] / valid;
      seen += valid;
    }
  }
  if (seen == 0) throw Error(ErrorCode::kEnvironment, "no row of the rollout is valid");
  const auto mean = [&](ImpalaObjective::Sum sum) { return sums[sum] / seen; };
  return {.advantage_s = 0,
          .update_s = seconds_since(start),
          .apply_s = apply_s,
          .first_ratio_error = ratio_error,
          .metrics = {{"charts/learning_rate", step.lr},
                      {"losses/policy_loss", mean(ImpalaObjective::kPolicyLoss)},
                      {"losses/value_loss", mean(ImpalaObjective::kValueLoss)},
                      {"losses/entropy", mean(ImpalaObjective::kEntropy)},
                      {"losses/approx_kl", mean(ImpalaObjective::kKl)},
                      {"losses/rho", mean(ImpalaObjective::kRho)},
                      {"losses/grad_norm", norms / steps},
                      {"schedule/entropy", static_cast<double>(loss.entropy_coef)}}};
}

Algorithm impala_algorithm() {
  return {.name = "impala",
          .summary = "actor-critic with V-trace targets",
          .faster = "lower impala.n_epochs",
          .schema = ImpalaOptions::schema(),
          .needs = {.values = false},
          .allows_lag = true,
          .validate = [](const Config&, int64_t, const NetworkSpec&) {},
          .make =
              [](const Config& section, Policy& policy, ThreadPool& pool, uint64_t seed) {
                return std::make_unique<Impala>(policy, pool, ImpalaOptions::from(section), seed);
              }};
}

}  // namespace flotilla
