// Acting with a network on libtorch: of the policy that learns, and of its snapshots.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "flotilla/nn/torch/distribution.h"
#include "flotilla/nn/torch/host_batch.h"
#include "flotilla/nn/torch/libtorch.h"
#include "flotilla/nn/torch/network.h"
#include "flotilla/nn/torch/sampling.h"

namespace flotilla::torch_nn {

class TorchActing {
 public:
  // `network` and `normaliser` must outlive it.
  TorchActing(const NetworkSpec& spec, const Network& network, const ObsNormaliser& normaliser)
      : spec_(spec),
        network_(network),
        normaliser_(normaliser),
        device_(network.flat().device()),
        tile_(tile_for(spec, device_)) {}

  int tile() const { return tile_; }

  void act(const ActRows& rows, const Draw& draw) const {
    require_host(rows.memory);
    guarded([&] {
      const c10::InferenceMode no_gradients;
      for (int first = -(rows.first_env % tile_); first < rows.count; first += tile_) {
        act_tile(rows, draw, first, {std::max(0, -first), std::min(tile_, rows.count - first)});
      }
    });
  }

  void value(const std::byte* obs, int count, float* out) const {
    guarded([&] {
      const c10::InferenceMode no_gradients;
      for (int first = 0; first < count; first += tile_) {
        const Span valid{0, std::min(tile_, count - first)};
        const Tile tile = tile_of({.obs = obs}, first, valid);
        const Array values =
            network_.forward(tile.obs, false, true).value.to(at::kCPU).contiguous();
        std::memcpy(out + first, values.data_ptr<float>(),
                    static_cast<size_t>(valid.size()) * sizeof(float));
      }
    });
  }

 private:
  // A matrix product may round a row differently when its shape or the row's place changes. So a
  // row is always computed in a tile of this many, at the place its env's number says.
  static int tile_for(const NetworkSpec& spec, const at::Device& device) {
    if (spec.torso != Torso::kNone) return device.is_cuda() ? 256 : 16;  // a picture is much work
    return device.is_cuda() ? 1024 : 64;
  }

  struct Tile {
    Array obs, open;
  };

  // Row `first_row` of `rows`, which may lie before the first, comes to the top of the tile; rows
  // that are not there are zeros with every choice open.
  Tile tile_of(const ActRows& rows, int first_row, Span valid) const {
    HostBatch host(spec_, normaliser_, tile_, rows.mask != nullptr);
    for (int i = valid.begin; i < valid.end; ++i) {
      host.put(static_cast<size_t>(i), rows.obs, rows.mask, static_cast<size_t>(first_row + i));
    }
    return {host.obs().to(device_), host.open(device_)};
  }

  Array draw_choices(const std::vector<Choices>& choices, const ActRows& rows, const Draw& draw,
                     int first_row, Span valid) const {
    const size_t dims = spec_.action.dims();
    const Uniforms uniforms(draw, rows.first_env + first_row, tile_, dims);
    const Epsilon epsilon(static_cast<double>(draw.epsilon));
    Array latent = at::zeros({tile_, static_cast<int64_t>(dims)}, at::kLong);
    for (size_t d = 0; d < dims; ++d) {
      const auto count = static_cast<size_t>(spec_.action.choices[d]);
      const Array p = choices[d].probabilities(epsilon).to(at::kCPU);
      const float* table = p.data_ptr<float>();
      for (int i = valid.begin; i < valid.end; ++i) {
        const std::span<const float> row(table + static_cast<size_t>(i) * count, count);
        const int32_t choice = draw.greedy ? likeliest(row) : choose(row, uniforms(i, d));
        const size_t at = static_cast<size_t>(first_row + i) * dims + d;
        latent.data_ptr<int64_t>()[static_cast<size_t>(i) * dims + d] = choice;
        reinterpret_cast<int32_t*>(rows.action)[at] = choice;
        reinterpret_cast<int32_t*>(rows.latent)[at] = choice;
      }
    }
    return latent.to(device_);
  }

  Array draw_box(const Array& mean, const ActRows& rows, const Draw& draw, int first_row,
                 Span valid) const {
    const size_t dims = spec_.action.dims();
    const Uniforms uniforms(draw, rows.first_env + first_row, tile_, dims * 2);
    const Array deviation = network_.leaf("log_std").exp().to(at::kCPU);
    Array latent = mean.to(at::kCPU).clone();
    for (int i = valid.begin; i < valid.end; ++i) {
      for (size_t d = 0; d < dims; ++d) {
        float& sample = latent.data_ptr<float>()[static_cast<size_t>(i) * dims + d];
        if (!draw.greedy) {
          sample +=
              deviation.data_ptr<float>()[d] * normal(uniforms(i, 2 * d), uniforms(i, 2 * d + 1));
        }
        const size_t at = static_cast<size_t>(first_row + i) * dims + d;
        reinterpret_cast<float*>(rows.latent)[at] = sample;
        reinterpret_cast<float*>(rows.action)[at] = box_action(spec_, sample, d);
      }
    }
    return latent.to(device_);
  }

  void act_tile(const ActRows& rows, const Draw& draw, int first_row, Span valid) const {
    const Tile tile = tile_of(rows, first_row, valid);
    const Heads heads = network_.forward(tile.obs, true, rows.value != nullptr);
    Array logprob;
    if (spec_.action.is_box()) {
      const Array latent = draw_box(heads.actor, rows, draw, first_row, valid);
      if (rows.logprob != nullptr) {
        logprob = gaussian_logprob(spec_, heads.actor, network_.leaf("log_std"), latent);
      }
    } else {
      const auto choices = choices_of(spec_.action, heads.actor, tile.open);
      const Array latent = draw_choices(choices, rows, draw, first_row, valid);
      if (rows.logprob != nullptr) {
        logprob = choices_logprob(choices, latent, Epsilon(static_cast<double>(draw.epsilon)));
      }
    }
    const auto copy_out = [&](const Array& from, float* to) {
      if (to == nullptr) return;
      const Array here = from.to(at::kCPU).contiguous();
      std::memcpy(to + first_row + valid.begin, here.data_ptr<float>() + valid.begin,
                  static_cast<size_t>(valid.size()) * sizeof(float));
    };
    copy_out(logprob, rows.logprob);
    copy_out(heads.value, rows.value);
  }

  const NetworkSpec& spec_;
  const Network& network_;
  const ObsNormaliser& normaliser_;
  const at::Device device_;
  const int tile_;
};

}  // namespace flotilla::torch_nn
