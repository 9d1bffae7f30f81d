#include "flotilla/algo/a3c.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "flotilla/core/error.h"

namespace flotilla {

Schema A3cOptions::schema() {
  const A3cOptions d;
  Schema schema;
  schema.number("gamma", d.gamma, {0, 1}, "discount of future rewards")
      .number("lambda", d.lambda, {0, 1}, "decay of what comes back from later steps")
      .alias("gae_lambda");
  Schedule::add_to(schema, "learning_rate", 7e-4, {0, 1}, "step size of RMSprop", "lr");
  Schedule::add_to(schema, "ent_coef", 0.01, {0, 10}, "weight of the entropy bonus", "entropy");
  schema.number("vf_coef", d.value_coef, {0, 1000}, "weight of the squared value error")
      .number("max_grad_norm", d.max_grad_norm, {0, 1e9}, "gradients are clipped to this; 0: not")
      .number("rmsprop_decay", d.decay, {0, 0.999999}, "decay of the gradient's square")
      .number("optimizer_epsilon", d.epsilon, {1e-12, 1}, "added to the gradient's std");
  return schema;
}

A3cOptions A3cOptions::from(const Config& section) {
  const auto number = [&](const char* key) { return section.get_number(key); };
  A3cOptions o;
  o.gamma = number("gamma");
  o.lambda = number("lambda");
  o.lr = Schedule::from(section, "learning_rate");
  o.entropy = Schedule::from(section, "ent_coef");
  o.value_coef = number("vf_coef");
  o.max_grad_norm = number("max_grad_norm");
  o.decay = number("rmsprop_decay");
  o.epsilon = number("optimizer_epsilon");
  return o;
}

void SharedNumbers::copy_from(std::span<const float> from) {
  for (size_t i = 0; i < from.size(); ++i) set(i, from[i]);
}

void SharedNumbers::copy_to(std::span<float> to) const {
  for (size_t i = 0; i < to.size(); ++i) to[i] = get(i);
}

A3c::A3c(Policy& policy, ThreadPool& pool, const A3cOptions& options)
    : policy_(policy), options_(options) {
  const size_t count = policy.parameter_view().size();
  params_.resize(count);
  squares_.resize(count);
  for (int i = 0; i < pool.threads(); ++i) {
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->policy = policy.copy();
  }
}

void A3c::begin() { params_.copy_from(policy_.parameter_view()); }

void A3c::end() {
  params_.copy_to(policy_.parameter_view());
  policy_.parameters_changed();
}

const ActingPolicy& A3c::current(int part) {
  Part& own = *parts_[static_cast<size_t>(part)];
  own.begun = updates_.load(std::memory_order_relaxed);
  params_.copy_to(own.policy->parameter_view());
  own.policy->parameters_changed();
  return *own.policy;
}

void A3c::learn(int part, const Batch& batch, Span envs) {
  Part& own = *parts_[static_cast<size_t>(part)];
  const Trajectory& trajectory = batch.trajectory;
  const double fraction = fraction_.load(std::memory_order_relaxed);
  own.rows.clear();
  for (int env = envs.begin; env < envs.end; ++env) {
    for (int t = 0; t < trajectory.steps; ++t) own.rows.push_back(t * trajectory.envs + env);
  }
  const auto valid = static_cast<double>(
      std::ranges::count_if(own.rows, [&](int32_t row) { return trajectory.valid[row] != 0; }));
  if (valid == 0) return;

  own.last_value.resize(static_cast<size_t>(trajectory.envs));
  const size_t first = trajectory.rows() + static_cast<size_t>(envs.begin);
  own.policy->value(0, batch.samples.obs + first * policy_.spec().obs_bytes(), envs.size(),
                    own.last_value.data() + envs.begin);
  // The policy has not changed since it acted: the ratios of V-trace are one.
  ImpalaObjective loss;
  loss.trajectory = trajectory;
  loss.correction = {.gamma = options_.gamma, .lambda = options_.lambda};
  loss.acting_logprob = batch.logprob;
  loss.last_value = own.last_value.data();
  loss.value_coef = static_cast<float>(options_.value_coef);
  loss.entropy_coef = static_cast<float>(options_.entropy.at(fraction));
  loss.row_weight = static_cast<float>(1 / valid);
  const LossSums sums = own.policy->gradient(own.alone, batch.samples, own.rows, Nets::kBoth, loss);
  const GradientView gradient = own.policy->gradient_view();
  const double norm = descend({gradient.data, gradient.count}, options_.lr.at(fraction));
  note(sums, valid, norm, updates_.fetch_add(1, std::memory_order_relaxed) - own.begun);
}

double A3c::descend(std::span<const float> gradient, double lr) {
  double squares = 0;
  for (const float number : gradient) squares += static_cast<double>(number * number);
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm)) {
    throw Error(ErrorCode::kNumeric, "the norm of a thread's gradient is not finite");
  }
  const bool clip = options_.max_grad_norm > 0 && norm > options_.max_grad_norm;
  const auto scale = static_cast<float>(clip ? options_.max_grad_norm / (norm + 1e-6) : 1);
  const auto decay = static_cast<float>(options_.decay),
             rest = static_cast<float>(1 - options_.decay);
  const auto epsilon = static_cast<float>(options_.epsilon), rate = static_cast<float>(lr);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float slope = gradient[i] * scale;
    const float square = decay * squares_.get(i) + rest * slope * slope;
    squares_.set(i, square);
    params_.set(i, params_.get(i) - rate * slope / (std::sqrt(square) + epsilon));
  }
  return norm;
}

void A3c::note(const LossSums& sums, double rows, double norm, int64_t lag) {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < Objective::kSums; ++i) report_.sums[i] += sums[i];
  report_.rows += rows;
  report_.norms += norm;
  report_.lag += static_cast<double>(lag);
  report_.most_lag = std::max(report_.most_lag, lag);
  ++report_.updates;
}

Update A3c::learn(const Batch& /*batch*/, const LearnProgress& progress) {
  fraction_.store(progress.fraction, std::memory_order_relaxed);
  end();  // for whoever looks at the policy meanwhile
  Report report;
  {
    const std::lock_guard lock(mutex_);
    report = std::exchange(report_, {});
  }
  Update update;
  const auto add = [&](const char* name, double value) {
    update.metrics.emplace_back(name, value);
  };
  add("charts/learning_rate", options_.lr.at(progress.fraction));
  const auto mean = [&](double sum, double count) { return count > 0 ? sum / count : 0; };
  const auto of_rows = [&](ImpalaObjective::Sum sum) {
    return mean(report.sums[sum], report.rows);
  };
  add("losses/policy_loss", of_rows(ImpalaObjective::kPolicyLoss));
  add("losses/value_loss", of_rows(ImpalaObjective::kValueLoss));
  add("losses/entropy", of_rows(ImpalaObjective::kEntropy));
  const auto updates = static_cast<double>(report.updates);
  add("losses/grad_norm", mean(report.norms, updates));
  add("schedule/entropy", options_.entropy.at(progress.fraction));
  add("async/updates", updates);
  add("async/lag", mean(report.lag, updates));
  add("async/lag_max", static_cast<double>(report.most_lag));
  return update;
}

void A3c::save(Writer& writer) const {
  std::vector<float> squares(squares_.size());
  squares_.copy_to(squares);
  writer.bytes("squares", std::as_bytes(std::span(squares)));
}

void A3c::load(Reader& reader) {
  std::vector<float> squares(squares_.size());
  reader.bytes_into("squares", std::as_writable_bytes(std::span(squares)));
  // The root of a negative one would make a parameter no number.
  if (!std::ranges::all_of(squares, [](float x) { return x >= 0 && std::isfinite(x); })) {
    throw Error(ErrorCode::kData, "a mean of squares that is none");
  }
  squares_.copy_from(squares);
}

Algorithm a3c_algorithm() {
  return {.name = "a3c",
          .summary = "actor-critic whose threads share parameters without a lock",
          .faster = "raise n_steps: each thread computes a gradient after so many",
          .schema = A3cOptions::schema(),
          .needs = {.values = false},
          .allows_lag = true,
          .learns_in_actors = true,
          .validate =
              [](const Config&, int64_t, const NetworkSpec& network) {
                if (!network.normalise_obs) return;
                throw Error(ErrorCode::kUsage,
                            "normalize_obs: expected false: the threads of a3c share parameters, "
                            "not the moments of observations (appo has both)");
              },
          .make =
              [](const Config& section, Policy& policy, ThreadPool& pool, uint64_t /*seed*/) {
                return std::make_unique<A3c>(policy, pool, A3cOptions::from(section));
              }};
}

}  // namespace flotilla
