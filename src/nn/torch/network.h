// The network itself: parameters and forward pass.
//
// All parameters lie in one flat array, actor before critic, and the layers are views of it, so
// that Adam is a few long sweeps and not a few short ones per layer.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/nn/parameters.h"
#include "flotilla/nn/policy.h"
#include "flotilla/nn/torch/residual.h"

namespace flotilla::torch_nn {

using Array = at::Tensor;

// One tensor of the network within the flat array.
struct Slot {
  std::string name;
  std::vector<int64_t> shape;
  int64_t first = 0, size = 0;

  bool is_critics() const { return name.starts_with("critic"); }
};

// A stretch of the flat array, and of the slots in it.
struct Range {
  int64_t first = 0, size = 0;
  size_t first_slot = 0, slots = 0;
};

struct Heads {
  Array actor, value;
};

class Network {
 public:
  Network(const NetworkSpec& spec, at::Device device)
      : spec_(spec),
        torso_(make_torso(spec.torso, spec.image)),
        attention_(spec.torso == Torso::kAttention ? make_attention(spec.groups, spec.fusion)
                                                   : AttentionTorso()) {
    add_slots();
    flat_ = at::zeros({all_.size}, at::device(device));
    for (const Slot& slot : slots_) {
      const Array view = flat_.narrow(0, slot.first, slot.size).view(slot.shape).detach();
      leaves_.push_back(view.set_requires_grad(true));
    }
  }

  Array& flat() { return flat_; }
  const Array& flat() const { return flat_; }
  const Slot& slot(size_t i) const { return slots_[i]; }

  Range range(Nets nets) const {
    return nets == Nets::kBoth ? all_ : nets == Nets::kActor ? actor_ : critic_;
  }
  // The parameters as autograd knows them.
  std::vector<Array> leaves(const Range& range) const {
    const auto first = leaves_.begin() + static_cast<std::ptrdiff_t>(range.first_slot);
    return {first, first + static_cast<std::ptrdiff_t>(range.slots)};
  }
  const Array& leaf(const std::string& name) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].name == name) return leaves_[i];
    }
    throw Error(ErrorCode::kInternal, "no tensor " + name);
  }

  Heads forward(const Array& obs, bool actor, bool value) const {
    Heads heads;
    const Array seen = spec_.torso == Torso::kNone        ? factor(obs)
                       : spec_.torso == Torso::kAttention ? attend(obs)
                                                          : features(obs);
    const Array trunk = spec_.shared ? hidden("trunk", seen) : Array();
    const size_t last = spec_.shared ? 0 : spec_.hidden.size();
    const auto outputs = [&](const char* net) {
      return head(layer_name(net, last), spec_.shared ? trunk : hidden(net, seen));
    };
    if (actor) heads.actor = outputs("actor");
    if (value) heads.value = outputs("critic").squeeze(1);
    return heads;
  }

  // A flat array of our layout as tensors by name, and back.
  Tensors read(const Array& flat) const {
    const Array here = flat.to(at::kCPU);
    Tensors tensors = make_parameters(spec_);
    for (const Slot& slot : slots_) {
      const float* first = here.data_ptr<float>() + slot.first;
      find_tensor(tensors, slot.name).data.assign(first, first + slot.size);
    }
    return tensors;
  }
  void write(const Tensors& tensors, Array& flat) const {
    Array here = at::empty({flat.size(0)});
    for (const Slot& slot : slots_) {
      const Tensor& tensor = find_tensor(tensors, slot.name);
      std::copy(tensor.data.begin(), tensor.data.end(), here.data_ptr<float>() + slot.first);
    }
    const c10::NoGradGuard no_gradients;
    flat.copy_(here);
  }

 private:
  void add_slots() {
    for (const Tensor& tensor : make_parameters(spec_)) {
      slots_.push_back({tensor.name,
                        {tensor.shape.begin(), tensor.shape.end()},
                        0,
                        static_cast<int64_t>(tensor.elements())});
    }
    std::stable_partition(slots_.begin(), slots_.end(),
                          [](const Slot& slot) { return !slot.is_critics(); });
    for (Slot& slot : slots_) {
      Range& part = slot.is_critics() ? critic_ : actor_;
      slot.first = all_.size;
      all_.size += slot.size;
      part.size += slot.size;
      ++part.slots;
    }
    all_.slots = slots_.size();
    critic_.first = actor_.size;
    critic_.first_slot = actor_.slots;
  }

  // Not by fmt: newer libtorch brings headers of another version of it.
  static std::string layer_name(const char* net, size_t number) {
    return std::string(net) + "." + std::to_string(number);
  }
  // Of everything but the heads: as the products take it.
  Array factor(const Array& x) const {
    return x.to(spec_.precision == Precision::kBf16 ? at::kBFloat16 : at::kFloat);
  }
  Array head(const std::string& name, const Array& x) const {
    return at::linear(x.to(at::kFloat), leaf(name + ".weight"), leaf(name + ".bias"));
  }
  Array layer(const std::string& name, const Array& x) const {
    return at::linear(x, factor(leaf(name + ".weight")), factor(leaf(name + ".bias")));
  }
  Array convolve(const Convolution& each, const Array& x) const {
    return at::conv2d(x, factor(leaf(each.name + ".weight")), factor(leaf(each.name + ".bias")),
                      each.stride, each.padding);
  }
  // Pictures lie with their channels innermost; libtorch counts these first.
  Array features(const Array& obs) const {
    const Array pixels = spec_.obs_type == ObsType::kUint8 ? factor(obs) / 255 : factor(obs);
    const Array x = pixels.view({-1, spec_.image.rows, spec_.image.columns, spec_.image.channels})
                        .permute({0, 3, 1, 2});
    const Array made = spec_.torso == Torso::kNature ? nature(x) : impala(x);
    return made.flatten(1);
  }
  Array nature(Array x) const {
    for (const Convolution& each : torso_.convolutions) x = convolve(each, x).relu();
    return x;
  }
  Array impala(Array x) const {
#ifdef FLOTILLA_CUDA
    if (x.is_cuda()) return impala_on_gpu(x);
#endif
    const std::vector<Convolution>& all = torso_.convolutions;
    for (size_t stage = 0; stage < all.size(); stage += kStage) {
      x = at::max_pool2d(convolve(all[stage], x), 3, 2, 1);
      for (size_t block = stage + 1; block < stage + kStage; block += kBlock) {
        x = x + convolve(all[block + 1], convolve(all[block], x.relu()).relu());
      }
    }
    return x.relu();
  }
#ifdef FLOTILLA_CUDA
  Array impala_on_gpu(Array x) const {
    const auto sums = [&](const Convolution& each, const Array& from) {
      return at::conv2d(from, factor(leaf(each.name + ".weight")), {}, each.stride, each.padding);
    };
    const auto bias = [&](const Convolution& each) { return factor(leaf(each.name + ".bias")); };
    const std::vector<Convolution>& all = torso_.convolutions;
    for (size_t stage = 0; stage < all.size(); stage += kStage) {
      x = AddAndPool::apply(sums(all[stage], x), bias(all[stage]));
      for (size_t block = stage + 1; block < stage + kStage; block += kBlock) {
        const Convolution &first = all[block], &second = all[block + 1];
        const Array inner = AddAndRelu::apply(sums(first, x.relu()), bias(first));
        x = AddAndJoin::apply(sums(second, inner), bias(second), x);
      }
    }
    return x.relu();
  }
#endif
  // Tokens are [observations, count, width].
  Array attend(const Array& obs) const {
    std::vector<Array> made(attention_.tokens.size());
    int64_t first = 0;
    for (size_t g = 0; g < spec_.groups.size(); ++g) {
      const Group& group = spec_.groups[g];
      const int64_t numbers = static_cast<int64_t>(group.count) * group.features;
      made[g] = obs.narrow(1, first, numbers).reshape({-1, group.count, group.features});
      first += numbers;
    }
    for (const TokenStep& step : attention_.steps) {
      made[static_cast<size_t>(step.out)] = carry_out(step, made);
    }
    return made.back().squeeze(1);
  }
  Array tokens(int which, const std::vector<Array>& made) const {
    const Tokens& wanted = attention_.tokens[static_cast<size_t>(which)];
    if (wanted.flat_of >= 0)
      return made[static_cast<size_t>(wanted.flat_of)].flatten(1).unsqueeze(1);
    if (wanted.parts.empty()) return made[static_cast<size_t>(which)];
    std::vector<Array> parts;
    for (const int part : wanted.parts) parts.push_back(made[static_cast<size_t>(part)]);
    return at::cat(parts, 1);
  }
  Array carry_out(const TokenStep& step, const std::vector<Array>& made) const {
    const Array x = tokens(step.in, made);
    Array y;
    switch (step.kind) {
      case TokenStep::Kind::kLinear:
        y = layer(step.name, x);
        if (step.added >= 0) y = y + tokens(step.added, made);
        break;
      case TokenStep::Kind::kNorm:
        y = at::layer_norm(x, {x.size(2)}, leaf(step.name + ".weight"), leaf(step.name + ".bias"),
                           kNormEpsilon);
        break;
      case TokenStep::Kind::kAttend:
        return attend_by_heads(x, step.heads);
      case TokenStep::Kind::kMean:
        return x.mean(1, true);
    }
    return step.relu ? y.relu() : y;
  }
  static Array attend_by_heads(const Array& x, int64_t heads) {
    const int64_t width = x.size(2) / 3 / heads;
    // [3, observations, heads, count, width of a head]
    const Array sides = x.view({x.size(0), x.size(1), 3, heads, width}).permute({2, 0, 3, 1, 4});
    const Array scores =
        at::matmul(sides[0], sides[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(width));
    return at::matmul(scores.softmax(-1), sides[2]).transpose(1, 2).flatten(2);
  }
  Array hidden(const char* net, Array x) const {
    for (size_t k = 0; k < spec_.hidden.size(); ++k) {
      const Array sum = layer(layer_name(net, k), x);
      x = spec_.activation == Activation::kTanh ? sum.tanh() : sum.relu();
    }
    return x;
  }

  // Convolutions of a stage of the residual network, and of a block in it.
  static constexpr size_t kStage = 5, kBlock = 2;

  const NetworkSpec spec_;
  const TorsoSpec torso_;
  const AttentionTorso attention_;
  Range all_, actor_, critic_;
  std::vector<Slot> slots_;
  Array flat_;
  std::vector<Array> leaves_;  // views of flat_, in the order of slots_
};

}  // namespace flotilla::torch_nn
