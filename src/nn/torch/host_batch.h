// Rows of observations and masks, brought together on the CPU for a network.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "flotilla/nn/network.h"
#include "flotilla/nn/normaliser.h"

namespace flotilla::torch_nn {

inline size_t obs_row_bytes(const NetworkSpec& spec) {
  return static_cast<size_t>(spec.inputs) * (spec.obs_type == ObsType::kUint8 ? 1 : sizeof(float));
}

// Rows that are not put stay zeros with every choice open.
class HostBatch {
 public:
  HostBatch(const NetworkSpec& spec, const ObsNormaliser& normaliser, int64_t rows, bool masked)
      : spec_(spec), normaliser_(normaliser), mask_size_(spec.action.mask_size()) {
    // Bytes of pictures stay bytes until they are on the device.
    const bool bytes = spec.torso != Torso::kNone && spec.obs_type == ObsType::kUint8;
    obs_ = at::zeros({rows, spec.inputs}, bytes ? at::kByte : at::kFloat);
    if (!masked || mask_size_ == 0) return;
    open_ = at::ones({rows, static_cast<int64_t>(mask_size_)}, at::kBool);
  }

  // Row `from` of the arrays becomes row `to` of the batch.
  void put(size_t to, const std::byte* obs, const uint8_t* mask, size_t from) {
    const size_t bytes = obs_row_bytes(spec_);
    if (obs_.scalar_type() == at::kByte) {
      std::memcpy(obs_.data_ptr<uint8_t>() + to * bytes, obs + from * bytes, bytes);
    } else {
      put_obs(obs + from * bytes, obs_.data_ptr<float>() + to * static_cast<size_t>(spec_.inputs));
    }
    if (!open_.defined()) return;
    const uint8_t* flags = mask + from * mask_size_;
    std::transform(flags, flags + mask_size_, open_.data_ptr<bool>() + to * mask_size_,
                   [](uint8_t flag) { return flag != 0; });
  }

  const at::Tensor& obs() const { return obs_; }
  at::Tensor open(at::Device device) const { return open_.defined() ? open_.to(device) : open_; }

 private:
  void put_obs(const std::byte* from, float* to) const {
    const auto count = static_cast<size_t>(spec_.inputs);
    if (spec_.obs_type == ObsType::kUint8) {
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
    } else {
      std::memcpy(to, from, count * sizeof(float));
    }
    if (!spec_.normalise_obs) return;
    constexpr float kClip = NetworkSpec::kObsClip;
    const float *mean = normaliser_.mean(), *scale = normaliser_.scale();
    for (size_t i = 0; i < count; ++i) {
      to[i] = std::clamp((to[i] - mean[i]) * scale[i], -kClip, kClip);
    }
  }

  const NetworkSpec& spec_;
  const ObsNormaliser& normaliser_;
  size_t mask_size_;
  at::Tensor obs_, open_;  // open_: undefined when every choice is open
};

}  // namespace flotilla::torch_nn
