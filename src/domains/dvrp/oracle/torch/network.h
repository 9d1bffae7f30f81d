// The oracle's network as libtorch computes it, with gradients where they are asked for.
//
// All parameters lie in one flat array and the layers are views of it, so that Adam is one sweep;
// what the normalisers have seen lies beside it.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/oracle/sizes.h"
#include "flotilla/domains/dvrp/oracle/weights.h"
#include "flotilla/nn/parameters.h"

namespace flotilla::dvrp::torch_oracle {

using Array = at::Tensor;

// What decoding needs of an instance, once. Keys hold the factors of their products.
struct Encoded {
  Array keys, values;  // [instances, heads, nodes, head width]
  Array logit_keys;    // [instances, nodes, width]
  Array queries;       // [instances, nodes, width]: of the current node, and of the graph
};

class Network {
 public:
  Network(const Tensors& shapes, at::Device device) : shapes_(shapes) {
    int64_t size = 0;
    for (const Tensor& tensor : shapes) {
      if (!is_statistic(tensor.name)) size += static_cast<int64_t>(tensor.elements());
    }
    flat_ = at::zeros({size}, at::device(device));
    int64_t first = 0;
    for (const Tensor& tensor : shapes) {
      const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
      if (is_statistic(tensor.name)) {
        by_name_[tensor.name] = at::zeros(shape, at::device(device));
        continue;
      }
      const auto count = static_cast<int64_t>(tensor.elements());
      const Array view = flat_.narrow(0, first, count).view(shape).detach();
      by_name_[tensor.name] = view.set_requires_grad(true);
      leaves_.push_back(by_name_[tensor.name]);
      first += count;
    }
  }

  Array& flat() { return flat_; }
  const std::vector<Array>& leaves() const { return leaves_; }

  void set(const Tensors& weights) {
    const c10::NoGradGuard no_gradients;
    for (const Tensor& tensor : weights) {
      Array& to = by_name_.at(tensor.name);
      const Array from = at::empty(to.sizes());
      std::copy(tensor.data.begin(), tensor.data.end(), from.data_ptr<float>());
      to.detach().copy_(from);
    }
  }
  Tensors get() const {
    Tensors weights = shapes_;
    for (Tensor& tensor : weights) copy_out(by_name_.at(tensor.name), tensor);
    return weights;
  }
  // A flat array of our layout as tensors with a prefix before their names, and back.
  Tensors split(const Array& flat, const std::string& prefix) const {
    Tensors parts;
    int64_t first = 0;
    for (const Tensor& shape : shapes_) {
      if (is_statistic(shape.name)) continue;
      Tensor part = shape;
      part.name = prefix + shape.name;
      const auto count = static_cast<int64_t>(shape.elements());
      copy_out(flat.narrow(0, first, count), part);
      parts.push_back(std::move(part));
      first += count;
    }
    return parts;
  }
  void join(const Tensors& parts, const std::string& prefix, Array& flat) const {
    const Array here = at::empty(flat.sizes());
    float* to = here.data_ptr<float>();
    for (const Tensor& shape : shapes_) {
      if (is_statistic(shape.name)) continue;
      const Tensor& part = find_tensor(parts, prefix + shape.name);
      to = std::copy(part.data.begin(), part.data.end(), to);
    }
    flat.copy_(here);
  }

  // `node`: [instances, nodes, cells + 3]; `real`: [instances, nodes], 1 where there is a node.
  // `training`: normalisers use the batch, and keep its statistics.
  Encoded encode(const Array& node, const Array& real, bool training) {
    Array x = linear("init", node);
    const Array hidden_keys = real.lt(0.5).unsqueeze(1).unsqueeze(1);  // [instances, 1, 1, nodes]
    for (int k = 0; k < kOracleLayers; ++k) {
      const std::string layer = "layer." + std::to_string(k) + ".";
      x = normalise(layer + "norm1", x + attend_all(layer, x, hidden_keys), real, training);
      const Array wide = linear(layer + "wide", x).relu();
      x = normalise(layer + "norm2", x + linear(layer + "narrow", wide), real, training);
    }
    const std::vector<Array> cache = at::linear(x, weight("cache")).chunk(3, 2);
    const Array sum = (x * real.unsqueeze(2)).sum(1);
    const Array graph = at::linear(sum / real.sum(1, true), weight("graph"));
    return {
        .keys = heads_of(cache[0]) * kHeadFactor,
        .values = heads_of(cache[1]),
        .logit_keys = at::matmul(cache[2], weight("glimpse")) * kLogitFactor,
        .queries = at::linear(x, weight("context").slice(1, 0, kOracleWidth)) + graph.unsqueeze(1)};
  }

  // Scores before tanh, [instances, steps, nodes], of steps with the current node and scalars.
  Array scores(const Encoded& encoded, const Array& current, const Array& scalars,
               const Array& allowed) const {
    const int64_t count = current.size(0), steps = current.size(1);
    const Array index = current.unsqueeze(2).expand({count, steps, kOracleWidth});
    const Array query = encoded.queries.gather(1, index) + at::linear(scalars, scalar_weights());
    return scores(encoded, query, allowed.logical_not());
  }
  // The same of queries that are made already.
  static Array scores(const Encoded& encoded, const Array& query, const Array& hidden) {
    const Array mixed = attend(heads_of(query), encoded.keys, encoded.values, hidden.unsqueeze(1));
    return at::matmul(mixed, encoded.logit_keys.transpose(1, 2));
  }
  Array scalar_weights() const { return weight("context").slice(1, kOracleWidth); }  // [width, 3]

 private:
  static inline const double kHeadFactor = 1 / std::sqrt(static_cast<double>(kOracleHeadWidth));
  static inline const double kLogitFactor = 1 / std::sqrt(static_cast<double>(kOracleWidth));
  static constexpr double kMomentum = 0.02;  // of the normalisers' statistics

  static bool is_statistic(const std::string& name) {
    return name.ends_with(".mean") || name.ends_with(".var");
  }
  static void copy_out(const Array& from, Tensor& to) {
    const Array here = from.detach().to(at::kCPU).contiguous();
    const float* first = here.data_ptr<float>();
    to.data.assign(first, first + here.numel());
  }
  const Array& weight(const std::string& name) const { return by_name_.at(name + ".weight"); }
  const Array& bias(const std::string& name) const { return by_name_.at(name + ".bias"); }
  Array linear(const std::string& name, const Array& x) const {
    return at::linear(x, weight(name), bias(name));
  }
  // [instances, rows, width] -> [instances, heads, rows, head width]
  static Array heads_of(const Array& x) {
    return x.reshape({x.size(0), x.size(1), kOracleHeads, kOracleHeadWidth}).transpose(1, 2);
  }
  static Array attend(const Array& query, const Array& keys, const Array& values,
                      const Array& hidden) {
    const Array scores = at::matmul(query, keys.transpose(2, 3));
    const Array part = scores.masked_fill(hidden, -INFINITY).softmax(-1);
    return at::matmul(part, values).transpose(1, 2).flatten(2);
  }
  Array attend_all(const std::string& layer, const Array& x, const Array& hidden_keys) const {
    const std::vector<Array> qkv = linear(layer + "qkv", x).chunk(3, 2);
    return linear(layer + "out", attend(heads_of(qkv[0]), heads_of(qkv[1]) * kHeadFactor,
                                        heads_of(qkv[2]), hidden_keys));
  }
  // Over the nodes that are there; padding has no part in the statistics.
  Array normalise(const std::string& name, const Array& x, const Array& real, bool training) {
    Array &kept_mean = by_name_.at(name + ".mean"), &kept_var = by_name_.at(name + ".var");
    Array mean = kept_mean, var = kept_var;
    if (training) {
      const Array rows = real.unsqueeze(2), count = real.sum();
      mean = (x * rows).sum(at::IntArrayRef{0, 1}) / count;
      var = ((x - mean).square() * rows).sum(at::IntArrayRef{0, 1}) / count;
      const c10::NoGradGuard no_gradients;
      kept_mean.lerp_(mean.detach(), kMomentum);
      kept_var.lerp_(var.detach(), kMomentum);
    }
    return (x - mean) * (weight(name) * (var + kNormEpsilon).rsqrt()) + bias(name);
  }

  Tensors shapes_;
  Array flat_;
  std::map<std::string, Array> by_name_;
  std::vector<Array> leaves_;  // views of flat_, in the order of their names
};

}  // namespace flotilla::dvrp::torch_oracle
