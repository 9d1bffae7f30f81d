// A trained policy that acts on rows of observations, for flotilla.Policy.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <mutex>
#include <numeric>

#include "bindings/actions.h"
#include "bindings/bindings.h"
#include "flotilla/core/error.h"
#include "flotilla/train/find_policy.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;
using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Bytes = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;
using Ints = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;

class LoadedPolicy {
 public:
  LoadedPolicy(const std::string& path, const std::string& checkpoint) {
    const py::gil_scoped_release free;
    file_ = find_policy(path, checkpoint);
    policy_ = make_policy(file_);
  }

  // Rows of observations, and masks for each of them or none.
  py::array predict(const py::array& given, const std::optional<Bytes>& masks, bool deterministic,
                    uint64_t seed, uint64_t step) {
    const py::array obs = as_read(given);
    const Rows rows = rows_of(obs, masks);
    const bool box = space().is_box();
    const std::vector<py::ssize_t> shape = {rows.count, static_cast<py::ssize_t>(space().dims())};
    py::array actions(box ? py::dtype::of<float>() : py::dtype::of<int32_t>(), shape);
    auto* to = static_cast<std::byte*>(actions.mutable_data());
    std::vector<std::byte> latent(static_cast<size_t>(actions.nbytes()));
    const ActRows act{.count = rows.count,
                      .obs = rows.obs,
                      .mask = rows.mask,
                      .action = to,
                      .latent = latent.data()};
    const Draw draw{.seed = seed, .step = step, .greedy = deterministic};
    const py::gil_scoped_release free;
    const std::lock_guard lock(acting_);
    policy_->act(0, act, draw);
    return actions;
  }

  py::array_t<float> value(const py::array& given) {
    const py::array obs = as_read(given);
    const Rows rows = rows_of(obs, std::nullopt, false);
    py::array_t<float> values(rows.count);
    float* to = values.mutable_data();
    const py::gil_scoped_release free;
    const std::lock_guard lock(acting_);
    policy_->value(0, rows.obs, rows.count, to);
    return values;
  }

  // Value, log-probability and entropy of choices.
  py::tuple evaluate(const py::array& given, const Ints& actions,
                     const std::optional<Bytes>& masks) {
    const py::array obs = as_read(given);
    const Rows rows = rows_of(obs, masks);
    if (space().is_box()) {
      throw Error(ErrorCode::kUsage,
                  "evaluate_actions: this policy's actions are points in a box, not choices");
    }
    require_choices(actions, rows.count);
    py::array_t<float> value(rows.count), logprob(rows.count), entropy(rows.count);
    std::vector<int32_t> chosen(static_cast<size_t>(rows.count));
    std::iota(chosen.begin(), chosen.end(), 0);
    const Samples samples{.obs = rows.obs,
                          .mask = rows.mask,
                          .latent = reinterpret_cast<const std::byte*>(actions.data())};
    const RowTerms out{.logprob = logprob.mutable_data(),
                       .entropy = entropy.mutable_data(),
                       .value = value.mutable_data()};
    {
      const py::gil_scoped_release free;
      const std::lock_guard lock(acting_);
      ThreadPool pool(1);
      policy_->evaluate(pool, samples, chosen, out);
    }
    return py::make_tuple(value, logprob, entropy);
  }

  py::dict tensors() const {
    py::dict dict;
    for (const Tensor& tensor : policy_->parameters()) {
      py::array_t<float> values(tensor.shape);
      std::copy(tensor.data.begin(), tensor.data.end(), values.mutable_data());
      dict[tensor.name.c_str()] = values;
    }
    for (const char* name : {"obs_normaliser.mean", "obs_normaliser.scale"}) {
      if (!file_.tensors.holds(name)) continue;
      const std::vector<float> values = file_.tensors.floats(name);
      dict[name] = py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data());
    }
    return dict;
  }

  py::dict describe() const {
    const NetworkSpec& network = policy_->spec();
    py::dict facts;
    facts["env"] = file_.origin.env;
    facts["path"] = py::bytes(file_.tensors.origin);
    facts["sampled"] = file_.origin.sampled;
    facts["inputs"] = network.inputs;
    facts["obs_dtype"] = network.obs_type == ObsType::kUint8 ? "uint8" : "float32";
    facts["torso"] = network.to_config().get_text("torso");
    py::list groups;
    for (const Group& each : network.groups) {
      groups.append(py::make_tuple(each.count, each.features));
    }
    facts["groups"] = groups;
    facts["image"] =
        py::make_tuple(network.image.rows, network.image.columns, network.image.channels);
    describe_actions(space(), facts);
    facts["masked"] = network.has_mask;
    facts["hidden"] = network.hidden;
    facts["activation"] = network.activation == Activation::kRelu ? "relu" : "tanh";
    facts["shared"] = network.shared;
    facts["squash"] = network.squash;
    facts["normalise_obs"] = network.normalise_obs;
    facts["obs_clip"] = NetworkSpec::kObsClip;
    return facts;
  }

 private:
  struct Rows {
    int count = 0;
    const std::byte* obs = nullptr;
    const uint8_t* mask = nullptr;
  };

  const ActionSpace& space() const { return policy_->spec().action; }

  // Bytes of pictures, floats otherwise.
  py::array as_read(const py::array& obs) const {
    if (policy_->spec().obs_type == ObsType::kUint8) return Bytes(obs);
    return Floats(obs);
  }

  Rows rows_of(const py::array& obs, const std::optional<Bytes>& masks, bool acts = true) const {
    const int inputs = policy_->spec().inputs;
    if (obs.ndim() != 2 || obs.shape(1) != inputs) {
      throw Error(ErrorCode::kUsage, fmt::format("obs: expected {} numbers, got {}", inputs,
                                                 obs.ndim() == 2 ? obs.shape(1) : obs.size()));
    }
    if (obs.shape(0) > kMaxEnvs) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("obs: expected up to {} rows, got {}", kMaxEnvs, obs.shape(0)));
    }
    Rows rows{static_cast<int>(obs.shape(0)), reinterpret_cast<const std::byte*>(obs.data())};
    if (!acts) return rows;
    const auto size = static_cast<py::ssize_t>(space().mask_size());
    if (masks && (masks->ndim() != 2 || masks->shape(0) != rows.count)) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("mask: expected shape ({}, {})", rows.count, size));
    }
    for (int row = 0; row < rows.count; ++row) {
      std::span<const uint8_t> mask;
      if (masks) mask = {masks->data(row, 0), static_cast<size_t>(masks->shape(1))};
      const std::string refusal = mask_refusal(space().choices, policy_->spec().has_mask, mask);
      if (!refusal.empty()) throw Error(ErrorCode::kUsage, refusal);
      if (!masks) break;  // one row says it for all
    }
    if (masks && rows.count > 0) rows.mask = masks->data();
    return rows;
  }

  void require_choices(const Ints& actions, int rows) const {
    const auto dims = static_cast<py::ssize_t>(space().dims());
    if (actions.ndim() != 2 || actions.shape(0) != rows || actions.shape(1) != dims) {
      throw Error(ErrorCode::kUsage, fmt::format("actions: expected shape ({}, {})", rows, dims));
    }
    EnvSpec env;
    env.name = file_.origin.env;
    env.action = space();
    check_actions(env, {0, rows}, {reinterpret_cast<const std::byte*>(actions.data())}, 0);
  }

  PolicyFile file_;
  std::unique_ptr<Policy> policy_;
  std::mutex acting_;
};

}  // namespace

void add_policies(py::module_& module) {
  py::class_<LoadedPolicy>(module, "LoadedPolicy")
      .def(py::init<const std::string&, const std::string&>(), py::arg("path"),
           py::arg("checkpoint"))
      .def("predict", &LoadedPolicy::predict, py::arg("obs"), py::arg("masks"),
           py::arg("deterministic"), py::arg("seed"), py::arg("step"))
      .def("value", &LoadedPolicy::value, py::arg("obs"))
      .def("evaluate", &LoadedPolicy::evaluate, py::arg("obs"), py::arg("actions"),
           py::arg("masks"))
      .def("tensors", &LoadedPolicy::tensors)
      .def("describe", &LoadedPolicy::describe);
}

}  // namespace flotilla::python
