// The forward pass over rows, from observations on the host to outputs on the host.
//
// A matrix product may round a row differently when its shape or the row's place changes. So a row
// is always computed in a tile of the same size, at the place that its number says.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "flotilla/nn/torch/host_batch.h"
#include "flotilla/nn/torch/network.h"
#include "flotilla/nn/torch/recording.h"

namespace flotilla::torch_nn {

class TileForward {
 public:
  // `spec`, `network` and `normaliser` must outlive it. `records`: on a GPU passes are recorded,
  // and threads wait for each other; otherwise they are not, and each thread has a stream of its
  // own.
  TileForward(const NetworkSpec& spec, const Network& network, const ObsNormaliser& normaliser,
              int tile, bool records)
      : spec_(spec), network_(network), normaliser_(normaliser), tile_(tile), records_(records) {}

  int tile() const { return tile_; }

  // Rows [first, first + size) of a tile are those of the observations from row `row` on.
  struct Part {
    int first = 0, size = 0, row = 0;
  };
  // `count` rows, of which the first has place `place` in its tile.
  std::vector<Part> parts(int place, int count) const {
    std::vector<Part> parts;
    for (int row = 0; row < count; row += parts.back().size) {
      const int first = row == 0 ? place : 0;
      parts.push_back({first, std::min(tile_ - first, count - row), row});
    }
    return parts;
  }

  // By part; what comes back of a tile's other rows means nothing.
  std::vector<Heads> operator()(const std::byte* obs, std::span<const Part> parts, bool actor,
                                bool value) const {
    std::vector<Heads> heads;
    const auto each = [&] {
      for (const Part& part : parts) heads.push_back(unrecorded(obs, part, actor, value));
    };
    if (!network_.flat().is_cuda()) {
      each();
    } else if (!records_) {
      Recording::apart(each);
    } else {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < parts.size(); i += kSlots) {
        on_gpu(obs, parts.subspan(i, std::min(kSlots, parts.size() - i)), actor, value, heads);
      }
    }
    return heads;
  }

 private:
  static constexpr size_t kSlots = 8;  // tiles in flight on a GPU

  struct Pass {
    Recording recording;
    Array outputs;
    std::thread::id rehearsed_by;
  };

  static void put(HostObs& host, size_t slot_row, const std::byte* obs, const Part& part) {
    for (int i = 0; i < part.size; ++i) {
      host.put(slot_row + static_cast<size_t>(part.first + i), obs,
               static_cast<size_t>(part.row + i));
    }
  }

  Heads unrecorded(const std::byte* obs, const Part& part, bool actor, bool value) const {
    const at::Device device = network_.flat().device();
    HostObs host(spec_, normaliser_, tile_, device.is_cuda());
    put(host, 0, obs, part);
    const Heads made = network_.forward(host.rows().to(device, true), actor, value);
    const auto here = [](const Array& x) { return x.defined() ? x.to(at::kCPU) : x; };
    return {here(made.actor), here(made.value)};
  }

  // The host brings the rows of a tile together while the GPU is at the one before. The memory is
  // the same every time.
  void on_gpu(const std::byte* obs, std::span<const Part> parts, bool actor, bool value,
              std::vector<Heads>& heads) const {
    if (!pinned_) {
      pinned_.emplace(spec_, normaliser_, static_cast<int64_t>(kSlots) * tile_, true);
      obs_ = pinned_->rows().narrow(0, 0, tile_).to(network_.flat().device());
    }
    Pass& pass = passes_[actor ? 1 : 0][value ? 1 : 0];
    std::vector<Array> outputs;
    for (size_t slot = 0; slot < parts.size(); ++slot) {
      const Part& part = parts[slot];
      const int64_t first = static_cast<int64_t>(slot) * tile_;
      put(*pinned_, static_cast<size_t>(first), obs, part);
      obs_.narrow(0, part.first, part.size)
          .copy_(pinned_->rows().narrow(0, first + part.first, part.size), true);
      run(pass, actor, value);
      outputs.push_back(pass.outputs.clone());
    }
    const Array here = at::cat(outputs).to(at::kCPU);  // waits for all
    const int64_t logits = here.size(1) - (value ? 1 : 0);
    for (size_t slot = 0; slot < parts.size(); ++slot) {
      const Array mine = here.narrow(0, static_cast<int64_t>(slot) * tile_, tile_);
      heads.push_back({actor ? mine.narrow(1, 0, logits).contiguous() : Array(),
                       value ? mine.select(1, logits).contiguous() : Array()});
    }
  }

  // The first run is the rehearsal of the recording, the second one records it; another thread
  // rehearses, too, for what the libraries set up for a thread cannot be set up in a recording.
  void run(Pass& pass, bool actor, bool value) const {
    const auto work = [&] {
      const Heads heads = network_.forward(obs_, actor, value);
      std::vector<Array> columns;
      if (actor) columns.push_back(heads.actor);
      if (value) columns.push_back(heads.value.unsqueeze(1));
      pass.outputs = at::cat(columns, 1);
    };
    if (pass.recording.made()) return pass.recording.replay();
    const bool is_first = pass.rehearsed_by == std::thread::id();
    if (pass.rehearsed_by != std::this_thread::get_id()) {
      Recording::rehearse(work);
      pass.rehearsed_by = std::this_thread::get_id();
    }
    if (is_first) return;
    pass.recording.record(work);
    pass.recording.replay();
  }

  const NetworkSpec& spec_;
  const Network& network_;
  const ObsNormaliser& normaliser_;
  const int tile_;
  const bool records_;
  mutable std::mutex mutex_;
  mutable std::optional<HostObs> pinned_;
  mutable Array obs_;          // on the device
  mutable Pass passes_[2][2];  // by whether the actor's and the critic's outputs are wanted
};

}  // namespace flotilla::torch_nn
