#include "flotilla/nn/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/sha256.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

struct Layer {
  std::string name;
  int inputs = 0, outputs = 0;
  double gain = 1;  // of an orthogonal init
  int kernel = 0;   // of a convolution, over `inputs` channels
  bool norm = false;
  TokenStep::First first = TokenStep::First::kUniform;

  std::vector<int> weight_shape() const {
    if (norm) return {outputs};
    if (kernel == 0) return {outputs, inputs};
    return {outputs, inputs, kernel, kernel};
  }
  // Numbers that an output is the sum of.
  int terms() const { return kernel == 0 ? inputs : inputs * kernel * kernel; }
};

constexpr double kHiddenGain = std::numbers::sqrt2, kActorGain = 0.01, kCriticGain = 1;

// Adds the hidden layers "NAME.0", "NAME.1", ... and returns the width of the last.
int add_hidden(const NetworkSpec& spec, const char* name, std::vector<Layer>& layers) {
  int inputs = spec.features();
  for (size_t k = 0; k < spec.hidden.size(); ++k) {
    layers.push_back({fmt::format("{}.{}", name, k), inputs, spec.hidden[k], kHiddenGain});
    inputs = spec.hidden[k];
  }
  return inputs;
}

void add_torso(const NetworkSpec& spec, std::vector<Layer>& layers) {
  if (spec.torso == Torso::kAttention) {
    const AttentionTorso torso = make_attention(spec.groups, spec.fusion);
    for (const TokenStep& step : torso.steps) {
      if (step.name.empty()) continue;
      layers.push_back({.name = step.name,
                        .inputs = torso.tokens[static_cast<size_t>(step.in)].width,
                        .outputs = torso.tokens[static_cast<size_t>(step.out)].width,
                        .norm = step.kind == TokenStep::Kind::kNorm,
                        .first = step.first});
    }
  }
  for (const Convolution& each : make_torso(spec.torso, spec.image).convolutions) {
    layers.push_back({.name = each.name,
                      .inputs = each.inputs,
                      .outputs = each.outputs,
                      .gain = kHiddenGain,
                      .kernel = each.kernel});
  }
}

std::vector<Layer> layers_of(const NetworkSpec& spec) {
  std::vector<Layer> layers;
  add_torso(spec, layers);
  if (spec.shared) {
    const int width = add_hidden(spec, "trunk", layers);
    layers.push_back({"actor.0", width, spec.outputs(), kActorGain});
    layers.push_back({"critic.0", width, 1, kCriticGain});
    return layers;
  }
  const size_t last = spec.hidden.size();
  int width = add_hidden(spec, "actor", layers);
  layers.push_back({fmt::format("actor.{}", last), width, spec.outputs(), kActorGain});
  width = add_hidden(spec, "critic", layers);
  layers.push_back({fmt::format("critic.{}", last), width, 1, kCriticGain});
  return layers;
}

Tensor zeros(std::string name, std::vector<int> shape) {
  size_t elements = 1;
  for (const int extent : shape) elements *= static_cast<size_t>(extent);
  return {std::move(name), std::move(shape), std::vector<float>(elements)};
}

// Orthonormal vectors, by modified Gram-Schmidt. REQUIRES: no more vectors than their length.
void orthonormalise(std::vector<std::vector<double>>& vectors) {
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  };
  for (size_t k = 0; k < vectors.size(); ++k) {
    std::vector<double>& v = vectors[k];
    for (size_t j = 0; j < k; ++j) {
      const double part = dot(v, vectors[j]);
      for (size_t i = 0; i < v.size(); ++i) v[i] -= part * vectors[j][i];
    }
    const double scale = 1 / std::sqrt(dot(v, v));
    for (double& x : v) x *= scale;
  }
}

// Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep
// linear neural networks" (2014). The rows are orthogonal, or the columns where they are fewer.
void fill_orthogonal(Tensor& weight, double gain, Rng rng) {
  const auto rows = static_cast<size_t>(weight.shape[0]);
  const size_t columns = weight.elements() / rows;
  std::vector<std::vector<double>> vectors(std::min(rows, columns),
                                           std::vector<double>(std::max(rows, columns)));
  for (auto& vector : vectors) {
    for (double& x : vector) x = rng.normal();
  }
  orthonormalise(vectors);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      const double x = rows <= columns ? vectors[r][c] : vectors[c][r];
      weight.data[r * columns + c] = static_cast<float>(gain * x);
    }
  }
}

void fill_uniform(Tensor& tensor, double bound, Rng rng) {
  for (float& x : tensor.data) x = static_cast<float>(rng.uniform(-bound, bound));
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
}

}  // namespace

Tensors make_parameters(const NetworkSpec& spec) {
  Tensors tensors;
  for (const Layer& layer : layers_of(spec)) {
    tensors.push_back(zeros(layer.name + ".weight", layer.weight_shape()));
    tensors.push_back(zeros(layer.name + ".bias", {layer.outputs}));
  }
  if (spec.action.is_box()) tensors.push_back(zeros("log_std", {spec.outputs()}));
  std::sort(tensors.begin(), tensors.end(),
            [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  return tensors;
}

Tensors initial_parameters(const NetworkSpec& spec, uint64_t seed) {
  Tensors tensors = make_parameters(spec);
  const auto rng_of = [&](const Tensor& tensor) {
    return Rng(seed, stream_of(Purpose::kInit, static_cast<uint64_t>(&tensor - tensors.data())));
  };
  for (const Layer& layer : layers_of(spec)) {
    Tensor& weight = find_tensor(tensors, layer.name + ".weight");
    Tensor& bias = find_tensor(tensors, layer.name + ".bias");
    if (layer.norm) {
      std::ranges::fill(weight.data, 1.0F);
    } else if (spec.init == Init::kOrthogonal) {
      fill_orthogonal(weight, layer.gain, rng_of(weight));
    } else {
      const bool xavier = layer.first == TokenStep::First::kXavierNoBias;
      const double bound =
          xavier ? std::sqrt(6.0 / (layer.inputs + layer.outputs)) : 1 / std::sqrt(layer.terms());
      fill_uniform(weight, bound, rng_of(weight));
      if (layer.first == TokenStep::First::kUniform) fill_uniform(bias, bound, rng_of(bias));
    }
  }
  if (spec.action.is_box()) {
    Tensor& log_std = find_tensor(tensors, "log_std");
    std::fill(log_std.data.begin(), log_std.data.end(), static_cast<float>(spec.log_std));
  }
  return tensors;
}

const Tensor& find_tensor(const Tensors& tensors, std::string_view name) {
  for (const Tensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw Error(ErrorCode::kData, "no tensor " + in_quotes(name));
}

Tensor& find_tensor(Tensors& tensors, std::string_view name) {
  return const_cast<Tensor&>(find_tensor(std::as_const(tensors), name));
}

void require_same_shapes(const Tensors& expected, const Tensors& given) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::kData, what); };
  for (size_t i = 0; i < std::max(expected.size(), given.size()); ++i) {
    if (i == given.size()) refuse("tensor " + in_quotes(expected[i].name) + " is missing");
    if (i == expected.size()) refuse("tensor " + in_quotes(given[i].name) + " is not expected");
    const Tensor &want = expected[i], &got = given[i];
    if (want.name != got.name) {
      refuse(
          fmt::format("expected tensor {}, found {}", in_quotes(want.name), in_quotes(got.name)));
    }
    if (want.shape != got.shape || want.elements() != got.elements()) {
      refuse(fmt::format("tensor {} has shape {} with {} elements, expected {}",
                         in_quotes(want.name), shape_text(got), got.elements(), shape_text(want)));
    }
  }
}

std::string sha256(const Tensors& tensors) {
  std::vector<const Tensor*> sorted;
  for (const Tensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(),
            [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  Sha256 hash;
  for (const Tensor* tensor : sorted) {
    hash.update(tensor->data.data(), tensor->elements() * sizeof(float));
  }
  return hash.hex();
}

}  // namespace flotilla
