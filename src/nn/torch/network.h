// The network itself: parameters and forward pass.
//
// All parameters lie in one flat array, actor before critic, and the layers are views of it, so
// that Adam is a few long sweeps and not a few short ones per layer.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/nn/parameters.h"
#include "flotilla/nn/policy.h"

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
      : spec_(spec), torso_(make_torso(spec.torso, spec.image)) {
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
    const Array seen = spec_.torso == Torso::kNone ? factor(obs) : features(obs);
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
    const std::vector<Convolution>& all = torso_.convolutions;
    constexpr size_t kStage = 5, kBlock = 2;
    for (size_t stage = 0; stage < all.size(); stage += kStage) {
      x = at::max_pool2d(convolve(all[stage], x), 3, 2, 1);
      for (size_t block = stage + 1; block < stage + kStage; block += kBlock) {
        x = x + convolve(all[block + 1], convolve(all[block], x.relu()).relu());
      }
    }
    return x.relu();
  }
  Array hidden(const char* net, Array x) const {
    for (size_t k = 0; k < spec_.hidden.size(); ++k) {
      const Array sum = layer(layer_name(net, k), x);
      x = spec_.activation == Activation::kTanh ? sum.tanh() : sum.relu();
    }
    return x;
  }

  const NetworkSpec spec_;
  const TorsoSpec torso_;
  Range all_, actor_, critic_;
  std::vector<Slot> slots_;
  Array flat_;
  std::vector<Array> leaves_;  // views of flat_, in the order of slots_
};

}  // namespace flotilla::torch_nn
