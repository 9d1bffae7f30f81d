#include "flotilla/domains/dvrp/flexibility/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"

namespace flotilla::dvrp {
namespace {

constexpr size_t kTypes = kFlexibilities;

// Places in the tensors, which are in the order of their names.
enum Place : size_t { kTable = 0, kBias0, kWeight0, kBias1, kWeight1, kBias2, kWeight2, kPlaces };

// Beside those of a policy of the same seed.
constexpr uint64_t kFirstInitStream = uint64_t{1} << 47u;

Tensor zeros(const std::string& name, std::vector<int> shape) {
  size_t count = 1;
  for (const int size : shape) count *= static_cast<size_t>(size);
  return {.name = name, .shape = std::move(shape), .data = std::vector<float>(count)};
}

Tensors empty_weights(int travellers) {
  constexpr int kIn = FlexibilityEmbedding::kWidth, kWide = FlexibilityEmbedding::kHidden;
  return {zeros("embedding.weight", {travellers, kIn}),    zeros("layer.0.bias", {kWide}),
          zeros("layer.0.weight", {kWide, kIn}),           zeros("layer.1.bias", {kWide}),
          zeros("layer.1.weight", {kWide, kWide}),         zeros("layer.2.bias", {kFlexibilities}),
          zeros("layer.2.weight", {kFlexibilities, kWide})};
}

// As torch does: an embedding is standard normal, a layer uniform within 1 / sqrt(inputs).
Tensors initial_weights(int travellers, uint64_t seed) {
  Tensors weights = empty_weights(travellers);
  for (size_t place = 0; place < weights.size(); ++place) {
    Rng rng(seed, stream_of(Purpose::kInit, kFirstInitStream + place));
    const bool is_bias = weights[place].shape.size() == 1;
    const double inputs = weights[is_bias ? place + 1 : place].shape[1];
    const double bound = 1 / std::sqrt(inputs);
    for (float& x : weights[place].data) {
      x = static_cast<float>(place == kTable ? rng.normal() : rng.uniform(-bound, bound));
    }
  }
  return weights;
}

struct Matrix {
  size_t rows, columns;
  std::vector<double> data;

  Matrix(size_t r, size_t c) : rows(r), columns(c), data(r * c) {}
  double* row(size_t i) { return data.data() + i * columns; }
  const double* row(size_t i) const { return data.data() + i * columns; }
};

double wide(float x) { return static_cast<double>(x); }

Matrix affine(const Matrix& in, const Tensor& weight, const Tensor& bias) {
  Matrix out(in.rows, bias.elements());
  for (size_t r = 0; r < in.rows; ++r) {
    for (size_t o = 0; o < out.columns; ++o) {
      const float* w = weight.data.data() + o * in.columns;
      double sum = wide(bias.data[o]);
      for (size_t i = 0; i < in.columns; ++i) sum += wide(w[i]) * in.row(r)[i];
      out.row(r)[o] = sum;
    }
  }
  return out;
}

// Adds to the gradients of weight and bias; returns that of the input.
Matrix affine_backward(const Matrix& in, const Matrix& d_out, const Tensor& weight,
                       std::vector<double>& d_weight, std::vector<double>& d_bias) {
  Matrix d_in(in.rows, in.columns);
  for (size_t r = 0; r < in.rows; ++r) {
    for (size_t o = 0; o < d_out.columns; ++o) {
      const double d = d_out.row(r)[o];
      const float* w = weight.data.data() + o * in.columns;
      double* dw = d_weight.data() + o * in.columns;
      d_bias[o] += d;
      for (size_t i = 0; i < in.columns; ++i) {
        dw[i] += d * in.row(r)[i];
        d_in.row(r)[i] += d * wide(w[i]);
      }
    }
  }
  return d_in;
}

Matrix tanh_of(Matrix x) {
  for (double& each : x.data) each = std::tanh(each);
  return x;
}

// `y`: what tanh gave.
Matrix tanh_backward(Matrix d, const Matrix& y) {
  for (size_t i = 0; i < d.data.size(); ++i) d.data[i] *= 1 - y.data[i] * y.data[i];
  return d;
}

void softmax(double* row) {
  const double most = *std::max_element(row, row + kTypes);
  double sum = 0;
  for (size_t l = 0; l < kTypes; ++l) sum += row[l] = std::exp(row[l] - most);
  for (size_t l = 0; l < kTypes; ++l) row[l] /= sum;
}

// All that the backward pass needs.
struct Forward {
  Matrix table, hidden0, hidden1;
  Matrix probabilities;
};

Forward forward(const Tensors& weights) {
  const auto travellers = static_cast<size_t>(weights[kTable].shape[0]);
  Matrix table(travellers, FlexibilityEmbedding::kWidth);
  std::ranges::transform(weights[kTable].data, table.data.begin(), wide);
  Matrix hidden0 = tanh_of(affine(table, weights[kWeight0], weights[kBias0]));
  Matrix hidden1 = tanh_of(affine(hidden0, weights[kWeight1], weights[kBias1]));
  Matrix probabilities = affine(hidden1, weights[kWeight2], weights[kBias2]);
  for (size_t r = 0; r < travellers; ++r) softmax(probabilities.row(r));
  return {std::move(table), std::move(hidden0), std::move(hidden1), std::move(probabilities)};
}

// Probabilities kept away from 0 and 1; their sum is 1 again.
class Clamped {
 public:
  explicit Clamped(const double* probabilities) : p_(probabilities) {
    constexpr double kLeast = FlexibilityEmbedding::kLeast;
    for (size_t l = 0; l < kTypes; ++l) {
      p[l] = std::clamp(p_[l], kLeast, 1 - kLeast);
      inside_[l] = p[l] == p_[l];
      sum_ += p[l];
    }
    for (double& each : p) each /= sum_;
  }

  TypeProbabilities p = {};

  // From the gradient of `p` to that of the logits below the softmax.
  void backward(const TypeProbabilities& d, double* d_logits) const {
    double mean = 0, before = 0;
    for (size_t l = 0; l < kTypes; ++l) mean += d[l] * p[l];
    TypeProbabilities d_raw = {};
    for (size_t l = 0; l < kTypes; ++l) {
      d_raw[l] = inside_[l] ? (d[l] - mean) / sum_ : 0;
      before += d_raw[l] * p_[l];
    }
    for (size_t l = 0; l < kTypes; ++l) d_logits[l] = p_[l] * (d_raw[l] - before);
  }

 private:
  const double* p_;
  std::array<bool, kTypes> inside_ = {};
  double sum_ = 0;
};

// What an answer that fits some types adds to the likelihood; adds `scale` times its gradient.
double add_likelihood(const TypeProbabilities& p, const TypePattern& fits, Likelihood likelihood,
                      double scale, TypeProbabilities& d) {
  double within = 0, sum = 0;
  for (size_t l = 0; l < kTypes; ++l) {
    if (!fits[l]) continue;
    within += p[l];
    sum += p[l] * std::log(p[l]);
  }
  const bool marginal = likelihood == Likelihood::kMarginal;
  const double value = marginal ? std::log(within) : sum / within;
  for (size_t l = 0; l < kTypes; ++l) {
    if (!fits[l]) continue;
    d[l] += scale * (marginal ? 1 : std::log(p[l]) + 1 - value) / within;
  }
  return value;
}

// Adds `scale` times its gradient, too.
double add_entropy(const TypeProbabilities& p, double scale, TypeProbabilities& d) {
  double entropy = 0;
  for (size_t l = 0; l < kTypes; ++l) {
    const double log = std::log(p[l]);
    entropy -= p[l] * log;
    d[l] -= scale * (log + 1);
  }
  return entropy;
}

// The regulariser of the embedding; adds `scale` times its gradient to `d`, as large as the table.
double add_regulariser(const Matrix& table, double scale, std::vector<double>& d) {
  const auto rows = static_cast<double>(table.rows), columns = static_cast<double>(table.columns);
  std::vector<double> mean(table.columns), variance(table.columns);
  for (size_t r = 0; r < table.rows; ++r) {
    for (size_t c = 0; c < table.columns; ++c) mean[c] += table.row(r)[c] / rows;
  }
  double all = 0;
  for (size_t c = 0; c < table.columns; ++c) {
    for (size_t r = 0; r < table.rows; ++r) {
      variance[c] += std::pow(table.row(r)[c] - mean[c], 2) / rows;
    }
    all += variance[c] / columns;
  }
  if (all == 0) return 0;  // one traveller: nothing can vary
  double value = 0, slope = 0;
  for (const double each : variance) {
    const double ratio = each / all;
    value += (ratio - 1) * (ratio - 1);
    slope += (ratio - 1) * ratio / columns;
  }
  for (size_t c = 0; c < table.columns; ++c) {
    const double d_variance = 2 / all * (variance[c] / all - 1 - slope);
    for (size_t r = 0; r < table.rows; ++r) {
      d[r * table.columns + c] += scale * d_variance * 2 * (table.row(r)[c] - mean[c]) / rows;
    }
  }
  return value;
}

void require_finite(const Tensors& tensors) {
  for (const Tensor& tensor : tensors) {
    if (!std::ranges::all_of(tensor.data, [](float x) { return std::isfinite(x); })) {
      throw Error(ErrorCode::kData,
                  fmt::format("tensor '{}' holds a value that is not finite", tensor.name));
    }
  }
}

// A count as two exact floats: one alone is exact only up to 2^24.
constexpr uint64_t kDigit = uint64_t{1} << 24u;

}  // namespace

FlexibilityEmbedding::FlexibilityEmbedding(int travellers, uint64_t seed,
                                           const EmbeddingOptions& options)
    : options_(options),
      weights_(initial_weights(travellers, seed)),
      m_(empty_weights(travellers)),
      v_(empty_weights(travellers)) {}

std::vector<TypeProbabilities> FlexibilityEmbedding::predict() const {
  const Matrix probabilities = forward(weights_).probabilities;
  std::vector<TypeProbabilities> all(probabilities.rows);
  for (size_t r = 0; r < all.size(); ++r) {
    std::copy_n(probabilities.row(r), kTypes, all[r].begin());
  }
  return all;
}

EmbeddingLoss FlexibilityEmbedding::loss(std::span<const Evidence> evidence) const {
  Gradient unused;
  return loss(evidence, unused);
}

EmbeddingLoss FlexibilityEmbedding::loss(std::span<const Evidence> evidence,
                                         Gradient& gradient) const {
  gradient.resize(kPlaces);
  for (size_t i = 0; i < kPlaces; ++i) gradient[i].assign(weights_[i].elements(), 0);
  const Forward f = forward(weights_);
  const size_t travellers = f.table.rows;

  std::vector<Clamped> clamped;
  for (size_t r = 0; r < travellers; ++r) clamped.emplace_back(f.probabilities.row(r));
  std::vector<TypeProbabilities> d(travellers);
  EmbeddingLoss loss;
  double weight = 0;
  for (const Evidence& each : evidence) weight += each.fits.any() ? each.weight : 0;
  for (const Evidence& each : evidence) {
    if (each.fits.none()) continue;
    const auto r = static_cast<size_t>(each.traveller);
    const double counted = each.weight * (each.fits.all() ? 1 - options_.common : 1);
    const double part = each.weight / weight;
    loss.likelihood +=
        counted * add_likelihood(clamped[r].p, each.fits, options_.likelihood, -counted, d[r]);
    loss.entropy += part * add_entropy(clamped[r].p, -options_.beta * part, d[r]);
  }
  loss.regulariser = add_regulariser(f.table, options_.alpha, gradient[kTable]);
  loss.total = -loss.likelihood + options_.alpha * loss.regulariser - options_.beta * loss.entropy;

  Matrix d_logits(travellers, kTypes);
  for (size_t r = 0; r < travellers; ++r) clamped[r].backward(d[r], d_logits.row(r));
  const Matrix d_hidden1 = affine_backward(f.hidden1, d_logits, weights_[kWeight2],
                                           gradient[kWeight2], gradient[kBias2]);
  const Matrix d_hidden0 =
      affine_backward(f.hidden0, tanh_backward(d_hidden1, f.hidden1), weights_[kWeight1],
                      gradient[kWeight1], gradient[kBias1]);
  const Matrix d_table = affine_backward(f.table, tanh_backward(d_hidden0, f.hidden0),
                                         weights_[kWeight0], gradient[kWeight0], gradient[kBias0]);
  for (size_t i = 0; i < d_table.data.size(); ++i) gradient[kTable][i] += d_table.data[i];
  return loss;
}

EmbeddingLoss FlexibilityEmbedding::step(std::span<const Evidence> evidence) {
  Gradient gradient;
  const EmbeddingLoss before = loss(evidence, gradient);
  if (!std::isfinite(before.total)) {
    throw Error(ErrorCode::kNumeric, "the loss of the flexibility embedding is not finite");
  }
  descend(gradient);
  return before;
}

// Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
void FlexibilityEmbedding::descend(const Gradient& gradient) {
  constexpr double kDecay1 = 0.9, kDecay2 = 0.999, kSmall = 1e-8;
  double squares = 0;
  for (const auto& part : gradient) {
    for (const double g : part) squares += g * g;
  }
  const double norm = std::sqrt(squares);
  const double scale = norm > options_.clip ? options_.clip / norm : 1;
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const double unbias1 = 1 - std::pow(kDecay1, t), unbias2 = 1 - std::pow(kDecay2, t);
  for (size_t k = 0; k < weights_.size(); ++k) {
    for (size_t i = 0; i < weights_[k].elements(); ++i) {
      const double g = scale * gradient[k][i];
      float &w = weights_[k].data[i], &m = m_[k].data[i], &v = v_[k].data[i];
      m = static_cast<float>(kDecay1 * wide(m) + (1 - kDecay1) * g);
      v = static_cast<float>(kDecay2 * wide(v) + (1 - kDecay2) * g * g);
      const double change = wide(m) / unbias1 / (std::sqrt(wide(v) / unbias2) + kSmall);
      w = static_cast<float>(wide(w) - options_.rate * change);
    }
  }
}

Tensors FlexibilityEmbedding::optimiser() const {
  Tensors state;
  for (const auto& [prefix, moments] : {std::pair("m.", &m_), std::pair("v.", &v_)}) {
    for (const Tensor& tensor : *moments) {
      state.push_back(tensor);
      state.back().name = prefix + tensor.name;
    }
  }
  const uint64_t high = steps_ / kDigit, low = steps_ % kDigit;
  state.push_back(
      {.name = "step", .shape = {2}, .data = {static_cast<float>(high), static_cast<float>(low)}});
  std::ranges::sort(state, {}, &Tensor::name);
  return state;
}

void FlexibilityEmbedding::set_weights(const Tensors& weights) {
  require_same_shapes(weights_, weights);
  require_finite(weights);
  weights_ = weights;
}

void FlexibilityEmbedding::set_optimiser(const Tensors& state) {
  require_same_shapes(optimiser(), state);
  require_finite(state);
  const Tensor& count = find_tensor(state, "step");
  if (!std::ranges::all_of(count.data, [](float x) { return x >= 0 && x < float{kDigit}; })) {
    throw Error(ErrorCode::kData, "tensor 'step' holds no count");
  }
  for (const Tensor& tensor : state) {
    const bool is_square = tensor.name.starts_with("v.");
    if (is_square && !std::ranges::all_of(tensor.data, [](float x) { return x >= 0; })) {
      throw Error(ErrorCode::kData,
                  fmt::format("tensor '{}' holds a negative mean of squares", tensor.name));
    }
  }
  for (Tensor& tensor : m_) tensor.data = find_tensor(state, "m." + tensor.name).data;
  for (Tensor& tensor : v_) tensor.data = find_tensor(state, "v." + tensor.name).data;
  steps_ = static_cast<uint64_t>(count.data[0]) * kDigit + static_cast<uint64_t>(count.data[1]);
}

}  // namespace flotilla::dvrp
