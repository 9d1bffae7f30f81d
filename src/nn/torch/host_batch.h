// Rows of observations and masks, brought together on the CPU for a network.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "flotilla/nn/network.h"
#include "flotilla/nn/normaliser.h"

namespace flotilla::torch_nn {

// Bytes of pictures stay bytes until they are on the device.
inline bool takes_bytes(const NetworkSpec& spec) {
  return spec.sees_images() && spec.obs_type == ObsType::kUint8;
}

// Rows that are not put stay zeros.
class HostObs {
 public:
  // `pinned`: in pages that a GPU reads by itself.
  HostObs(const NetworkSpec& spec, const ObsNormaliser& normaliser, int64_t rows,
          bool pinned = false)
      : spec_(spec), normaliser_(normaliser) {
    const auto type = at::dtype(takes_bytes(spec) ? at::kByte : at::kFloat);
    rows_ = at::zeros({rows, spec.inputs}, type.pinned_memory(pinned));
  }

  // Row `from` of the array becomes row `to`.
  void put(size_t to, const std::byte* obs, size_t from) {
    const size_t bytes = spec_.obs_bytes();
    if (rows_.scalar_type() == at::kByte) {
      std::memcpy(rows_.data_ptr<uint8_t>() + to * bytes, obs + from * bytes, bytes);
    } else {
      put_floats(obs + from * bytes,
                 rows_.data_ptr<float>() + to * static_cast<size_t>(spec_.inputs));
    }
  }

  const at::Tensor& rows() const { return rows_; }

 private:
  void put_floats(const std::byte* from, float* to) const {
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
  at::Tensor rows_;
};

// Rows that are not put have every choice open.
class HostMask {
 public:
  HostMask(const NetworkSpec& spec, int64_t rows, bool masked) : size_(spec.action.mask_size()) {
    if (masked && size_ > 0) open_ = at::ones({rows, static_cast<int64_t>(size_)}, at::kBool);
  }

  void put(size_t to, const uint8_t* mask, size_t from) {
    if (!open_.defined()) return;
    const uint8_t* flags = mask + from * size_;
    std::transform(flags, flags + size_, open_.data_ptr<bool>() + to * size_,
                   [](uint8_t flag) { return flag != 0; });
  }

  // Undefined when every choice is open.
  const at::Tensor& open() const { return open_; }

 private:
  size_t size_;
  at::Tensor open_;
};

}  // namespace flotilla::torch_nn
