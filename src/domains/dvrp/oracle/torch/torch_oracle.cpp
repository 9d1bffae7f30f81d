// The oracle's plugin on libtorch: the one source file of the domain that sees it.
#include "flotilla/domains/dvrp/oracle/torch_oracle.h"

#include <torch/csrc/autograd/autograd.h>

#include "flotilla/domains/dvrp/oracle/torch/decoder.h"
#include "flotilla/nn/torch/libtorch.h"

namespace flotilla::dvrp {
namespace {

using torch_oracle::Array;
using torch_oracle::Decoder;
using torch_oracle::Encoded;
using torch_oracle::Network;
using torch_oracle::Nodes;

bool is_out_of_memory(const std::string& text) {
  return text.find("out of memory") != std::string::npos;
}

template <class F>
auto guarded(F&& call) -> decltype(call()) {
  try {
    return torch_nn::guarded(call);
  } catch (const Error& error) {
    if (is_out_of_memory(error.what())) throw OutOfMemory(error.code(), error.what());
    throw;
  }
}

class TorchOracleOf final : public TorchOracle {
 public:
  TorchOracleOf(const CityTable& city, const Tensors& weights, const std::string& device)
      : device_(torch_nn::device_of(device)),
        ways_(at::empty({city.cells, city.cells})),
        network_(weights, device_) {
    // Ten bits of a product's factors are enough for a choice among nodes.
    at::globalContext().setAllowTF32CuBLAS(true);
    std::copy(city.minutes.begin(), city.minutes.end(), ways_.data_ptr<float>());
    ways_ = ways_.to(device_);
    network_.set(weights);
    m_ = at::zeros_like(network_.flat());
    v_ = at::zeros_like(network_.flat());
  }

  std::string name() const override {
    return std::string("network, torch " TORCH_VERSION) + (device_.is_cuda() ? " cuda" : " cpu");
  }
  Tensors weights() const override {
    return guarded([&] { return network_.get(); });
  }
  void set_weights(const Tensors& weights) override {
    guarded([&] { network_.set(weights); });
  }
  Tensors optimiser() const override {
    return guarded([&] {
      Tensors state = network_.split(m_, "m.");
      for (Tensor& tensor : network_.split(v_, "v.")) state.push_back(std::move(tensor));
      state.push_back({.name = "steps", .shape = {1}, .data = {static_cast<float>(steps_)}});
      return state;
    });
  }
  void set_optimiser(const Tensors& state) override {
    guarded([&] {
      network_.join(state, "m.", m_);
      network_.join(state, "v.", v_);
      steps_ = static_cast<int64_t>(find_tensor(state, "steps").data.at(0));
    });
  }

  std::vector<std::vector<int>> decode(const NodeBatch& batch, bool sampled,
                                       uint64_t seed) override {
    return guarded([&] {
      try {
        return decoder(batch, sampled).decode(batch, seed);
      } catch (...) {
        decoders_.clear();  // one may have been left half made
        throw;
      }
    });
  }
  double learn(const NodeBatch& batch, const StepBatch& steps, const LearnStep& options) override {
    return guarded([&] { return learn_guarded(batch, steps, options); });
  }

 private:
  static constexpr size_t kMaxDecoders = 64;  // each keeps its memory on the device

  Decoder& decoder(const NodeBatch& batch, bool sampled) {
    const std::tuple key(batch.instances, batch.nodes, sampled);
    if (!decoders_.contains(key)) {
      if (decoders_.size() >= kMaxDecoders) decoders_.clear();
      decoders_[key] =
          std::make_unique<Decoder>(network_, ways_, batch.instances, batch.nodes, sampled);
    }
    return *decoders_.at(key);
  }

  template <class T>
  Array on_device(const std::vector<T>& values, at::IntArrayRef shape, at::ScalarType type) const {
    return at::from_blob(const_cast<T*>(values.data()), shape, at::dtype(type)).to(device_);
  }

  double learn_guarded(const NodeBatch& batch, const StepBatch& steps, const LearnStep& options) {
    const int64_t count = batch.instances, n = batch.nodes, length = steps.steps;
    Nodes nodes(count, n, device_);
    nodes.fill(batch);
    const Array current = on_device(steps.current, {count, length}, at::kLong);
    const Array chosen = on_device(steps.chosen, {count, length}, at::kLong);
    const Array scalars = on_device(steps.scalars, {count, length, kOracleScalars}, at::kFloat);
    const Array allowed = on_device(steps.allowed, {count, length, n}, at::kByte).to(at::kBool);
    const Array weight = on_device(steps.weight, {count, length}, at::kFloat);

    const Encoded encoded =
        network_.encode(features(nodes, ways_), nodes.real, !options.frozen_norms);
    const Array scores = network_.scores(encoded, current, scalars, allowed).tanh() * kOracleClip;
    const Array log_p = scores.masked_fill(allowed.logical_not(), -INFINITY).log_softmax(-1);
    const Array taken = log_p.gather(2, chosen.unsqueeze(2)).squeeze(2);
    const Array loss = -(taken * weight).sum();
    update(torch::autograd::grad({loss}, network_.leaves()), options);
    return loss.item<double>();
  }

  // Adam after Kingma and Ba (2015), on a gradient of bounded length.
  void update(const std::vector<Array>& gradients, const LearnStep& options) {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
    const c10::NoGradGuard no_gradients;
    std::vector<Array> parts;
    for (const Array& gradient : gradients) parts.push_back(gradient.reshape({-1}));
    Array gradient = at::cat(parts);
    if (parts_.defined()) gradient.add_(parts_);
    parts_ = options.part ? gradient : Array();
    if (options.part) return;
    gradient.mul_((options.max_gradient / (gradient.norm() + 1e-6)).clamp_max(1));
    ++steps_;
    m_.lerp_(gradient, 1 - kBeta1);
    v_.mul_(kBeta2).addcmul_(gradient, gradient, 1 - kBeta2);
    const double rate = options.rate / (1 - std::pow(kBeta1, static_cast<double>(steps_)));
    const double correction = std::sqrt(1 - std::pow(kBeta2, static_cast<double>(steps_)));
    network_.flat().addcdiv_(m_, v_.sqrt().div_(correction).add_(kEpsilon), -rate);
  }

  const at::Device device_;
  Array ways_;
  Network network_;
  Array m_, v_;
  Array parts_;  // the gradient of a step that is not whole yet
  int64_t steps_ = 0;
  // By instances, nodes and whether they are drawn.
  std::map<std::tuple<int, int, bool>, std::unique_ptr<Decoder>> decoders_;
};

}  // namespace
}  // namespace flotilla::dvrp

extern "C" [[gnu::visibility("default")]] flotilla::dvrp::TorchOracle* flotilla_make_torch_oracle(
    const flotilla::dvrp::CityTable& city, const flotilla::Tensors& weights,
    const std::string& device) {
  return flotilla::dvrp::guarded([&]() -> flotilla::dvrp::TorchOracle* {
    flotilla::torch_nn::use_one_thread();
    return new flotilla::dvrp::TorchOracleOf(city, weights, device);
  });
}
