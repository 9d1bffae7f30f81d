#include <fmt/format.h>

#include <algorithm>

#include "flotilla/algo/ppo.h"
#include "flotilla/core/error.h"

namespace flotilla {

Schema PpoOptions::schema(Returns returns) {
  const PpoOptions d;
  const bool vtrace = returns == Returns::kVtrace;
  Schema schema;
  schema.number("gamma", d.gamma, {0, 1}, "discount of future rewards");
  if (vtrace) {
    schema.number("lambda", 1, {0, 1}, "decay of what comes back from later steps")
        .alias("gae_lambda")
        .number("rho_clip", d.rho_clip, {0, 1e9},
                "largest ratio in the error of a step, and weight of an advantage")
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
  if (!vtrace) {
    schema.integer("blocks", d.blocks, {1, kMaxBlocks},
                   "equal parts of the envs that are shuffled and summed apart, for several "
                   "processes to share");
  }
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
  o.blocks = integer("blocks");
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

int64_t PpoOptions::rows_of_block(int64_t batch) const {
  const int64_t rows = minibatch_size > 0 ? minibatch_size : batch / minibatches;
  return std::max<int64_t>(rows / blocks, 1);
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
  if (minibatch_size == 0 && minibatches > batch / blocks) {
    refuse(fmt::format("ppo.minibatches {} is more than the {} rows of a block (ppo.blocks {})",
                       minibatches, batch / blocks, blocks));
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

}  // namespace flotilla
