// Distributions of actions as differentiable expressions over a batch of rows. Acting and learning
// use the same ones, so that a ratio of probabilities starts at one. With a network on a GPU the
// CPU draws and the GPU learns, and their exp and log round differently: there both compute in
// double (precise()).
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "flotilla/nn/network.h"

namespace flotilla::torch_nn {

using Array = at::Tensor;

// As the distributions take the outputs of a network that lies on `device`.
inline Array precise(const Array& outputs, const at::Device& device) {
  return device.is_cuda() ? outputs.to(at::kDouble) : outputs;
}

// What learning asks of the actions taken: one number per row.
struct Terms {
  Array logprob, entropy;
};

// The part of the probability that is spread evenly over the open choices, and the rest of it:
// arrays of one number, so that a graph on a GPU may be replayed with others.
struct Epsilon {
  bool any = false;
  Array part, rest;

  Epsilon() = default;
  explicit Epsilon(double epsilon)
      : any(epsilon != 0),
        part(at::scalar_tensor(epsilon, at::kDouble)),
        rest(at::scalar_tensor(1 - epsilon, at::kDouble)) {}
};

// The softmax over the open choices of one dimension.
class Choices {
 public:
  // `open`: a flag per logit; undefined when every choice is open.
  Choices(const Array& logits, const Array& open) : open_(open) {
    constexpr float kClosed = -std::numeric_limits<float>::infinity();
    if (open_.defined()) closed_ = open_.logical_not();
    log_p_ = at::log_softmax(open_.defined() ? logits.masked_fill(closed_, kClosed) : logits, 1);
  }

  // Of every choice, epsilon's even share included; exactly 0 for a closed one.
  Array probabilities(const Epsilon& epsilon) const {
    const Array p = log_p_.exp();
    if (!epsilon.any) return p;
    if (!open_.defined()) return p * epsilon.rest + share(epsilon);
    return p * epsilon.rest + open_ * share(epsilon).unsqueeze(1);
  }

  Array logprob(const Array& choice, const Epsilon& epsilon) const {
    const Array log_p = log_p_.gather(1, choice.unsqueeze(1)).squeeze(1);
    if (!epsilon.any) return log_p;
    return (log_p.exp() * epsilon.rest + share(epsilon)).log();
  }

  // A closed choice counts as 0 * 0: 0 * -inf would make it and its gradient NaN.
  Array entropy() const {
    const Array finite = open_.defined() ? log_p_.masked_fill(closed_, 0) : log_p_;
    return (log_p_.exp() * finite).sum(1).neg();
  }

 private:
  // What each open choice gets of epsilon: by row, or one number.
  Array share(const Epsilon& epsilon) const {
    if (!open_.defined()) return epsilon.part / log_p_.size(1);
    return open_.sum(1).to(at::kFloat).reciprocal() * epsilon.part;
  }

  Array open_, closed_;
  Array log_p_;  // -inf where closed
};

// One per dimension of a discrete action. `open` covers all of them, or is undefined.
inline std::vector<Choices> choices_of(const ActionSpace& space, const Array& logits,
                                       const Array& open) {
  std::vector<Choices> all;
  int64_t first = 0;
  for (const int count : space.choices) {
    const Array here = open.defined() ? open.narrow(1, first, count) : Array();
    all.emplace_back(logits.narrow(1, first, count), here);
    first += count;
  }
  return all;
}

inline Array choices_logprob(const std::vector<Choices>& choices, const Array& latent,
                             const Epsilon& epsilon) {
  Array sum = choices[0].logprob(latent.select(1, 0), epsilon);
  for (size_t d = 1; d < choices.size(); ++d) {
    sum = sum + choices[d].logprob(latent.select(1, static_cast<int64_t>(d)), epsilon);
  }
  return sum;
}

inline Array choices_entropy(const std::vector<Choices>& choices) {
  Array sum = choices[0].entropy();
  for (size_t d = 1; d < choices.size(); ++d) sum = sum + choices[d].entropy();
  return sum;
}

// log of d action / d sample, for an action that is tanh of the sample stretched over the box.
inline Array squash_log_slope(const ActionSpace& space, const Array& sample) {
  std::vector<Array> log_half;
  for (size_t d = 0; d < space.dims(); ++d) {
    log_half.push_back(
        at::full({1}, std::log(0.5F * (space.high[d] - space.low[d])), sample.options()));
  }
  const Array stretch = at::cat(log_half);
  // log(1 - tanh(x)^2) without taking a difference of numbers that are almost equal.
  const Array slope = 2 * (std::numbers::ln2 - sample - at::softplus(-2 * sample));
  return (slope + stretch).sum(1);
}

inline Array gaussian_logprob(const NetworkSpec& spec, const Array& mean, const Array& log_std,
                              const Array& latent) {
  const double half_log_2pi = 0.5 * std::log(2 * std::numbers::pi);
  const Array sample = latent.to(mean.scalar_type());
  const Array z = (sample - mean) * log_std.neg().exp();
  const Array sum = (z.square() * -0.5 - log_std - half_log_2pi).sum(1);
  return spec.squash ? sum - squash_log_slope(spec.action, sample) : sum;
}

// Of the Gaussian itself: that of a squashed one has no closed form.
inline Array gaussian_entropy(const Array& log_std, int64_t rows) {
  const double each = 0.5 + 0.5 * std::log(2 * std::numbers::pi);
  return (log_std + each).sum().expand({rows});
}

inline Terms action_terms(const NetworkSpec& spec, const Array& outputs, const Array& log_std,
                          const Array& open, const Array& latent, const Epsilon& epsilon) {
  if (spec.action.is_box()) {
    return {gaussian_logprob(spec, outputs, log_std, latent).to(at::kFloat),
            gaussian_entropy(log_std, outputs.size(0)).to(at::kFloat)};
  }
  const std::vector<Choices> choices = choices_of(spec.action, outputs, open);
  return {choices_logprob(choices, latent, epsilon).to(at::kFloat),
          choices_entropy(choices).to(at::kFloat)};
}

}  // namespace flotilla::torch_nn
