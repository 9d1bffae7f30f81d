#include "support/slow_policy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "flotilla/core/rng.h"

namespace flotilla::test {

SlowPolicy::SlowPolicy(const NetworkSpec& spec, const Tensors& tensors)
    : spec_(spec), mean_(inputs(), 0.0), scale_(inputs(), 1.0) {
  for (const Tensor& tensor : tensors) {
    parameters[tensor.name].assign(tensor.data.begin(), tensor.data.end());
    first_moments[tensor.name].assign(tensor.elements(), 0.0);
    second_moments[tensor.name].assign(tensor.elements(), 0.0);
  }
}

void SlowPolicy::set_normaliser(const ObsNormaliser& normaliser) {
  mean_.assign(normaliser.mean(), normaliser.mean() + inputs());
  scale_.assign(normaliser.scale(), normaliser.scale() + inputs());
}

SlowPolicy::Row SlowPolicy::row(const Samples& samples, int32_t number) const {
  const auto i = static_cast<size_t>(number);
  const size_t width = spec_.obs_type == ObsType::kUint8 ? 1 : sizeof(float);
  Row row{.epsilon = static_cast<double>(samples.epsilon)};
  row.obs = samples.obs + i * inputs() * width;
  if (samples.mask != nullptr) row.mask = samples.mask + i * spec_.action.mask_size();
  row.latent = samples.latent + i * spec_.action.dims() * sizeof(float);
  return row;
}

double SlowPolicy::kink_distance(const std::byte* obs) const {
  double least = INFINITY;
  if (spec_.activation != Activation::kRelu) return least;
  for (const std::string head : {"actor", "critic"}) {
    const std::vector<Vector> trace = forward(head, obs);
    const std::vector<std::string> names = path(head);
    for (size_t k = 0; k + 1 < names.size(); ++k) {
      for (const double sum : sums(names[k], trace[k])) least = std::min(least, std::abs(sum));
    }
  }
  return least;
}

SlowPolicy::Vector SlowPolicy::probabilities(const Row& row) const {
  const Vector logits = actor_outputs(row.obs);
  Vector all;
  for (size_t d = 0, first = 0; d < spec_.action.dims(); first += choices(d++)) {
    const Softmax s = softmax(logits, row.mask, first, choices(d));
    for (size_t c = 0; c < s.p.size(); ++c) all.push_back(mixed(s, c, row.epsilon));
  }
  return all;
}

SlowPolicy::Seen SlowPolicy::see(const Row& row) const {
  const Vector outputs = actor_outputs(row.obs);
  Seen seen;
  if (spec_.action.is_box()) {
    see_box(outputs, row, seen);
  } else {
    for (size_t d = 0, first = 0; d < spec_.action.dims(); first += choices(d++)) {
      const Softmax s = softmax(outputs, row.mask, first, choices(d));
      seen.logprob += std::log(mixed(s, chosen(row, d), row.epsilon));
      seen.entropy += entropy(s);
    }
  }
  seen.value = value(row.obs);
  return seen;
}

double SlowPolicy::uniform(uint64_t seed, uint64_t step, uint64_t index) {
  Rng rng(seed, stream_of(Purpose::kPolicy, step), index);
  return (rng.next_u32() >> 8) * 0x1.0p-24;
}

int32_t SlowPolicy::choose(std::span<const double> probabilities, double u) {
  double sum = 0, before = 0;
  for (const double p : probabilities) sum += p;
  int32_t choice = 0;
  for (size_t c = 0; c < probabilities.size(); ++c) {
    if (probabilities[c] > 0 && before <= u * sum) choice = static_cast<int32_t>(c);
    before += probabilities[c];
  }
  return choice;
}

double SlowPolicy::normal(uint64_t seed, uint64_t step, uint64_t env_and_dim) {
  const double u1 = uniform(seed, step, env_and_dim * 2);
  const double u2 = uniform(seed, step, env_and_dim * 2 + 1);
  return std::sqrt(-2 * std::log(1 - u1)) * std::cos(2 * std::numbers::pi * u2);
}

double SlowPolicy::box_action(double sample, size_t dim) const {
  const auto low = static_cast<double>(spec_.action.low[dim]);
  const auto high = static_cast<double>(spec_.action.high[dim]);
  const double point = spec_.squash ? low + (std::tanh(sample) + 1) / 2 * (high - low) : sample;
  return std::clamp(point, low, high);
}

void SlowPolicy::add_gradient(const Row& row, const Seen& d, Nets nets, Named& gradient) const {
  if (nets != Nets::kCritic) {
    const std::vector<Vector> trace = forward("actor", row.obs);
    backward("actor", trace, actor_slopes(trace.back(), row, d, gradient), gradient);
  }
  if (nets != Nets::kActor) {
    backward("critic", forward("critic", row.obs), {d.value}, gradient);
  }
}

SlowPolicy::Named SlowPolicy::gradient(const Samples& samples, std::span<const int32_t> chosen,
                                       Nets nets, const Objective& objective, double* sums) const {
  Named gradient;
  for (const auto& [name, values] : parameters) {
    if (trains(nets, name)) gradient[name].assign(values.size(), 0.0);
  }
  for (const int32_t number : chosen) {
    const Seen d = ask(objective, number, see(row(samples, number)), nets, sums);
    add_gradient(row(samples, number), d, nets, gradient);
  }
  return gradient;
}

LearnResult SlowPolicy::learn(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                              const Objective& objective, const GradientStep& step) {
  LearnResult result;
  const Named slopes = gradient(samples, chosen, nets, objective, result.sums.of);
  double squares = 0;
  for (const auto& [name, values] : slopes) {
    for (const double g : values) squares += g * g;
  }
  result.grad_norm = std::sqrt(squares);
  const double scale =
      step.max_grad_norm > 0 ? std::min(1.0, step.max_grad_norm / (result.grad_norm + 1e-6)) : 1.0;
  if (nets != Nets::kCritic) ++actor_steps;
  if (nets != Nets::kActor) ++critic_steps;
  for (const auto& [name, values] : slopes) {
    if (const auto* rule = std::get_if<Adam>(&step.rule)) {
      adam(name, values, scale, step.lr, *rule);
    } else {
      rmsprop(name, values, scale, step.lr, std::get<RmsProp>(step.rule));
    }
  }
  return result;
}

bool SlowPolicy::trains(Nets nets, const std::string& name) {
  return nets == Nets::kBoth || is_critics(name) == (nets == Nets::kCritic);
}

size_t SlowPolicy::chosen(const Row& row, size_t dim) {
  int32_t choice = 0;
  std::memcpy(&choice, row.latent + dim * sizeof(choice), sizeof(choice));
  return static_cast<size_t>(choice);
}

double SlowPolicy::sample(const Row& row, size_t dim) {
  float sample = 0;
  std::memcpy(&sample, row.latent + dim * sizeof(sample), sizeof(sample));
  return static_cast<double>(sample);
}

SlowPolicy::Vector SlowPolicy::input(const std::byte* obs) const {
  Vector x(inputs());
  for (size_t i = 0; i < x.size(); ++i) {
    if (spec_.obs_type == ObsType::kUint8) {
      x[i] = static_cast<double>(obs[i]);
    } else {
      float value = 0;
      std::memcpy(&value, obs + i * sizeof(value), sizeof(value));
      x[i] = static_cast<double>(value);
    }
    if (!spec_.normalise_obs) continue;
    const auto limit = static_cast<double>(NetworkSpec::kObsClip);
    x[i] = std::clamp((x[i] - mean_[i]) * scale_[i], -limit, limit);
  }
  return x;
}

std::vector<std::string> SlowPolicy::path(const std::string& head) const {
  std::vector<std::string> names;
  const size_t depth = spec_.hidden.size();
  for (size_t k = 0; k < depth; ++k) {
    names.push_back((spec_.shared ? "trunk" : head) + "." + std::to_string(k));
  }
  names.push_back(head + "." + std::to_string(spec_.shared ? 0 : depth));
  return names;
}

double SlowPolicy::activate(double x) const {
  return spec_.activation == Activation::kTanh ? std::tanh(x) : std::max(x, 0.0);
}

double SlowPolicy::activation_slope(double y) const {
  return spec_.activation == Activation::kTanh ? 1 - y * y : (y > 0 ? 1.0 : 0.0);
}

SlowPolicy::Vector SlowPolicy::sums(const std::string& name, const Vector& x) const {
  const Vector& weight = parameters.at(name + ".weight");
  Vector y = parameters.at(name + ".bias");
  for (size_t o = 0; o < y.size(); ++o) {
    double sum = y[o];
    for (size_t i = 0; i < x.size(); ++i) sum += weight[o * x.size() + i] * x[i];
    y[o] = sum;
  }
  return y;
}

std::vector<SlowPolicy::Vector> SlowPolicy::forward(const std::string& head,
                                                    const std::byte* obs) const {
  std::vector<Vector> trace = {input(obs)};
  const std::vector<std::string> names = path(head);
  for (const std::string& name : names) {
    Vector y = sums(name, trace.back());
    if (name != names.back()) {
      for (double& sum : y) sum = activate(sum);
    }
    trace.push_back(std::move(y));
  }
  return trace;
}

void SlowPolicy::backward(const std::string& head, const std::vector<Vector>& trace, Vector d,
                          Named& gradient) const {
  const std::vector<std::string> names = path(head);
  for (size_t k = names.size(); k-- > 0;) {
    const Vector& x = trace[k];
    const Vector& weight = parameters.at(names[k] + ".weight");
    Vector& d_weight = gradient[names[k] + ".weight"];
    Vector& d_bias = gradient[names[k] + ".bias"];
    Vector d_x(x.size(), 0.0);
    for (size_t o = 0; o < d.size(); ++o) {
      d_bias[o] += d[o];
      for (size_t i = 0; i < x.size(); ++i) {
        d_weight[o * x.size() + i] += d[o] * x[i];
        d_x[i] += d[o] * weight[o * x.size() + i];
      }
    }
    if (k > 0) {
      for (size_t i = 0; i < x.size(); ++i) d_x[i] *= activation_slope(x[i]);
    }
    d = std::move(d_x);
  }
}

SlowPolicy::Softmax SlowPolicy::softmax(const Vector& logits, const uint8_t* mask, size_t first,
                                        size_t count) const {
  Softmax s{.p = Vector(count, 0.0), .log_p = Vector(count, 0.0), .open = {}};
  double largest = -INFINITY, sum = 0;
  for (size_t c = 0; c < count; ++c) {
    s.open.push_back(mask == nullptr || mask[first + c] != 0);
    if (!s.open[c]) continue;
    ++s.open_count;
    largest = std::max(largest, logits[first + c]);
  }
  for (size_t c = 0; c < count; ++c) {
    if (s.open[c]) sum += std::exp(logits[first + c] - largest);
  }
  for (size_t c = 0; c < count; ++c) {
    if (!s.open[c]) continue;
    s.log_p[c] = logits[first + c] - largest - std::log(sum);
    s.p[c] = std::exp(s.log_p[c]);
  }
  return s;
}

double SlowPolicy::mixed(const Softmax& s, size_t choice, double epsilon) {
  if (!s.open[choice]) return 0;
  return (1 - epsilon) * s.p[choice] + epsilon / static_cast<double>(s.open_count);
}

double SlowPolicy::entropy(const Softmax& s) {
  double sum = 0;
  for (size_t c = 0; c < s.p.size(); ++c) sum -= s.p[c] * s.log_p[c];
  return sum;
}

void SlowPolicy::see_box(const Vector& means, const Row& row, Seen& seen) const {
  const double log_2pi = std::log(2 * std::numbers::pi);
  for (size_t d = 0; d < means.size(); ++d) {
    const double x = sample(row, d), log_std = parameters.at("log_std")[d];
    const double z = (x - means[d]) / std::exp(log_std);
    seen.logprob += -0.5 * z * z - log_std - 0.5 * log_2pi;
    seen.entropy += 0.5 + 0.5 * log_2pi + log_std;
    if (!spec_.squash) continue;
    // The action is (high - low) / 2 * tanh(x) and a constant; 1 - tanh^2 = 1 / cosh^2.
    const double half = 0.5 * (static_cast<double>(spec_.action.high[d]) -
                               static_cast<double>(spec_.action.low[d]));
    const double log_cosh = std::abs(x) + std::log1p(std::exp(-2 * std::abs(x))) - std::log(2.0);
    seen.logprob -= std::log(half) - 2 * log_cosh;
  }
}

SlowPolicy::Vector SlowPolicy::actor_slopes(const Vector& outputs, const Row& row, const Seen& d,
                                            Named& gradient) const {
  Vector slopes(outputs.size(), 0.0);
  if (spec_.action.is_box()) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const double deviation = std::exp(parameters.at("log_std")[i]);
      const double z = (sample(row, i) - outputs[i]) / deviation;
      slopes[i] = d.logprob * z / deviation;
      gradient["log_std"][i] += d.logprob * (z * z - 1) + d.entropy;
    }
    return slopes;
  }
  for (size_t dim = 0, first = 0; dim < spec_.action.dims(); first += choices(dim++)) {
    const Softmax s = softmax(outputs, row.mask, first, choices(dim));
    const size_t a = chosen(row, dim);
    const double weight = (1 - row.epsilon) * s.p[a] / mixed(s, a, row.epsilon);
    const double h = entropy(s);
    for (size_t c = 0; c < s.p.size(); ++c) {
      if (!s.open[c]) continue;
      slopes[first + c] =
          d.logprob * weight * ((c == a ? 1 : 0) - s.p[c]) - d.entropy * s.p[c] * (s.log_p[c] + h);
    }
  }
  return slopes;
}

SlowPolicy::Seen SlowPolicy::ask(const Objective& objective, int32_t number, const Seen& seen,
                                 Nets nets, double* sums) {
  const auto logprob = static_cast<float>(nets == Nets::kCritic ? 0 : seen.logprob);
  const auto entropy = static_cast<float>(nets == Nets::kCritic ? 0 : seen.entropy);
  const auto value = static_cast<float>(nets == Nets::kActor ? 0 : seen.value);
  float d_logprob = 0, d_entropy = 0, d_value = 0;
  objective.differentiate({.count = 1,
                           .sample = &number,
                           .logprob = &logprob,
                           .entropy = &entropy,
                           .value = &value,
                           .d_logprob = &d_logprob,
                           .d_entropy = &d_entropy,
                           .d_value = &d_value},
                          sums);
  return {static_cast<double>(d_logprob), static_cast<double>(d_entropy),
          static_cast<double>(d_value)};
}

void SlowPolicy::adam(const std::string& name, const Vector& slopes, double scale, double lr,
                      const Adam& rule) {
  const int t = is_critics(name) ? critic_steps : actor_steps;
  const double correction1 = 1 - std::pow(rule.beta1, t);
  const double correction2 = 1 - std::pow(rule.beta2, t);
  Vector& values = parameters[name];
  Vector& firsts = first_moments[name];
  Vector& seconds = second_moments[name];
  for (size_t i = 0; i < slopes.size(); ++i) {
    const double g = slopes[i] * scale;
    double& m = firsts[i];
    double& v = seconds[i];
    m = rule.beta1 * m + (1 - rule.beta1) * g;
    v = rule.beta2 * v + (1 - rule.beta2) * g * g;
    values[i] -= lr * (m / correction1) / (std::sqrt(v / correction2) + rule.epsilon);
  }
}

void SlowPolicy::rmsprop(const std::string& name, const Vector& slopes, double scale, double lr,
                         const RmsProp& rule) {
  Vector& values = parameters[name];
  Vector& seconds = second_moments[name];
  for (size_t i = 0; i < slopes.size(); ++i) {
    const double g = slopes[i] * scale;
    seconds[i] = rule.decay * seconds[i] + (1 - rule.decay) * g * g;
    values[i] -= lr * g / (std::sqrt(seconds[i]) + rule.epsilon);
  }
}

}  // namespace flotilla::test
