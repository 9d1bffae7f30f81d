// Acting with a network on libtorch: of the policy that learns, and of its snapshots.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "flotilla/nn/torch/distribution.h"
#include "flotilla/nn/torch/forward.h"
#include "flotilla/nn/torch/host_batch.h"
#include "flotilla/nn/torch/libtorch.h"
#include "flotilla/nn/torch/network.h"
#include "flotilla/nn/torch/sampling.h"

namespace flotilla::torch_nn {

class TorchActing {
 public:
  // `network` and `normaliser` must outlive it.
  TorchActing(const NetworkSpec& spec, const Network& network, const ObsNormaliser& normaliser,
              Beside beside)
      : spec_(spec),
        network_(network),
        forward_(spec, network, normaliser, tile_for(spec, network.flat().device()), beside) {}

  int tile() const { return forward_.tile(); }

  void act(const ActRows& rows, const Draw& draw) const {
    require_host(rows.memory);
    guarded([&] {
      const c10::InferenceMode no_gradients;
      const std::vector<Part> parts = forward_.parts(rows.first_env % tile(), rows.count);
      const std::vector<Heads> heads = forward_(rows.obs, parts, true, rows.value != nullptr);
      for (size_t i = 0; i < parts.size(); ++i) choose_actions(rows, draw, parts[i], heads[i]);
    });
  }

  void value(const std::byte* obs, int count, float* out) const {
    guarded([&] {
      const c10::InferenceMode no_gradients;
      const std::vector<Part> parts = forward_.parts(0, count);
      const std::vector<Heads> heads = forward_(obs, parts, false, true);
      for (size_t i = 0; i < parts.size(); ++i) copy_out(heads[i].value, parts[i], out);
    });
  }

 private:
  using Part = TileForward::Part;

  static int tile_for(const NetworkSpec& spec, const at::Device& device) {
    if (spec.sees_images()) return device.is_cuda() ? 64 : 16;  // a picture is much work
    return device.is_cuda() ? 1024 : 64;
  }

  static void copy_out(const Array& from, const Part& part, float* to) {
    if (to == nullptr) return;
    const Array here = from.to(at::kFloat).contiguous();
    std::memcpy(to + part.row, here.data_ptr<float>() + part.first,
                static_cast<size_t>(part.size) * sizeof(float));
  }

  Array open_of(const ActRows& rows, const Part& part) const {
    HostMask mask(spec_, tile(), rows.mask != nullptr);
    for (int i = 0; i < part.size; ++i) {
      mask.put(static_cast<size_t>(part.first + i), rows.mask, static_cast<size_t>(part.row + i));
    }
    return mask.open();
  }

  Array draw_choices(const std::vector<Choices>& choices, const ActRows& rows, const Draw& draw,
                     const Part& part) const {
    const size_t dims = spec_.action.dims();
    const Uniforms uniforms(draw, first_env(rows, part), tile(), dims);
    const Epsilon epsilon(static_cast<double>(draw.epsilon));
    Array latent = at::zeros({tile(), static_cast<int64_t>(dims)}, at::kLong);
    for (size_t d = 0; d < dims; ++d) {
      const auto count = static_cast<size_t>(spec_.action.choices[d]);
      const Array p = choices[d].probabilities(epsilon).to(at::kFloat);
      const float* table = p.data_ptr<float>();
      for (int i = part.first; i < part.first + part.size; ++i) {
        const std::span<const float> row(table + static_cast<size_t>(i) * count, count);
        const int32_t choice = draw.greedy ? likeliest(row) : choose(row, uniforms(i, d));
        const size_t at = place(part, i) * dims + d;
        latent.data_ptr<int64_t>()[static_cast<size_t>(i) * dims + d] = choice;
        reinterpret_cast<int32_t*>(rows.action)[at] = choice;
        reinterpret_cast<int32_t*>(rows.latent)[at] = choice;
      }
    }
    return latent;
  }

  Array draw_box(const Array& mean, const Array& log_std, const ActRows& rows, const Draw& draw,
                 const Part& part) const {
    const size_t dims = spec_.action.dims();
    const Uniforms uniforms(draw, first_env(rows, part), tile(), dims * 2);
    const Array deviation = log_std.exp();
    Array latent = mean.clone();
    for (int i = part.first; i < part.first + part.size; ++i) {
      for (size_t d = 0; d < dims; ++d) {
        float& sample = latent.data_ptr<float>()[static_cast<size_t>(i) * dims + d];
        if (!draw.greedy) {
          sample +=
              deviation.data_ptr<float>()[d] * normal(uniforms(i, 2 * d), uniforms(i, 2 * d + 1));
        }
        const size_t at = place(part, i) * dims + d;
        reinterpret_cast<float*>(rows.latent)[at] = sample;
        reinterpret_cast<float*>(rows.action)[at] = box_action(spec_, sample, d);
      }
    }
    return latent;
  }

  // Of the first row of a tile, which may have no env among the rows.
  static int first_env(const ActRows& rows, const Part& part) {
    return rows.first_env + part.row - part.first;
  }
  // Of row i of a tile, among the rows.
  static size_t place(const Part& part, int i) {
    return static_cast<size_t>(part.row + i - part.first);
  }

  void choose_actions(const ActRows& rows, const Draw& draw, const Part& part,
                      const Heads& heads) const {
    Array logprob;
    const Array outputs = precise(heads.actor, network_.flat().device());
    if (spec_.action.is_box()) {
      const Array log_std = network_.leaf("log_std").to(at::kCPU);
      const Array latent = draw_box(heads.actor, log_std, rows, draw, part);
      if (rows.logprob != nullptr) {
        const Array precise_log_std = precise(log_std, network_.flat().device());
        logprob = gaussian_logprob(spec_, outputs, precise_log_std, latent);
      }
    } else {
      const auto choices = choices_of(spec_.action, outputs, open_of(rows, part));
      const Array latent = draw_choices(choices, rows, draw, part);
      if (rows.logprob != nullptr) {
        logprob = choices_logprob(choices, latent, Epsilon(static_cast<double>(draw.epsilon)));
      }
    }
    copy_out(logprob, part, rows.logprob);
    copy_out(heads.value, part, rows.value);
  }

  const NetworkSpec& spec_;
  const Network& network_;
  const TileForward forward_;
};

}  // namespace flotilla::torch_nn
