// The forward pass over rows, from observations on the host to outputs on the host.
//
// A matrix product may round a row differently when its shape or the row's place changes. So a row
// is always computed in a tile of the same size, at the place that its number says.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "flotilla/nn/torch/host_batch.h"
#include "flotilla/nn/torch/network.h"
#include "flotilla/nn/torch/recording.h"

namespace flotilla::torch_nn {

// What else is on the GPU meanwhile.
enum class Beside : uint8_t {
  kNothing,  // threads wait for each other; tiles stand beside each other
  kLearner,  // which passes come before; every thread has a stream of its own
};

class TileForward {
 public:
  // `spec`, `network` and `normaliser` must outlive it.
  TileForward(const NetworkSpec& spec, const Network& network, const ObsNormaliser& normaliser,
              int tile, Beside beside)
      : spec_(spec), network_(network), normaliser_(normaliser), tile_(tile), beside_(beside) {}

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
    if (!network_.flat().is_cuda()) {
      for (const Part& part : parts) heads.push_back(on_cpu(obs, part, actor, value));
      return heads;
    }
    if (beside_ == Beside::kLearner) {
      std::vector<std::unique_ptr<Lane>> lanes;
      lanes.push_back(take_lane());
      on_gpu(lanes, obs, parts, actor, value, heads);
      give_back(std::move(lanes.front()));
    } else {
      const std::lock_guard lock(mutex_);
      while (lanes_.size() < std::min(kLanes, parts.size())) lanes_.push_back(make_lane());
      Recording::wait();  // for what was learnt
      on_gpu(Lanes(lanes_).first(std::min(lanes_.size(), parts.size())), obs, parts, actor, value,
             heads);
    }
    return heads;
  }

 private:
  static constexpr size_t kSlots = 8;  // tiles in flight in a lane
  static constexpr size_t kLanes = 4;  // where nothing else is on the GPU: a tile does not fill it

  struct Pass {
    Recording recording;
    Array outputs;
    std::thread::id rehearsed_by;
  };
  // What one thread at a time takes rows through the network with; the memory is the same every
  // time.
  struct Lane {
    HostObs pinned;
    Array obs;  // on the device
    FastStream stream;
    Pass passes[2][2];  // by whether the actor's and the critic's outputs are wanted
  };

  std::unique_ptr<Lane> make_lane() const {
    HostObs pinned(spec_, normaliser_, static_cast<int64_t>(kSlots) * tile_, true);
    Array obs = pinned.rows().narrow(0, 0, tile_).to(network_.flat().device());
    return std::unique_ptr<Lane>(new Lane{std::move(pinned), std::move(obs), {}, {}});
  }
  std::unique_ptr<Lane> take_lane() const {
    const std::lock_guard lock(mutex_);
    if (lanes_.empty()) return make_lane();
    std::unique_ptr<Lane> lane = std::move(lanes_.back());
    lanes_.pop_back();
    return lane;
  }
  void give_back(std::unique_ptr<Lane> lane) const {
    const std::lock_guard lock(mutex_);
    lanes_.push_back(std::move(lane));
  }

  static void put(HostObs& host, size_t slot_row, const std::byte* obs, const Part& part) {
    for (int i = 0; i < part.size; ++i) {
      host.put(slot_row + static_cast<size_t>(part.first + i), obs,
               static_cast<size_t>(part.row + i));
    }
  }

  Heads on_cpu(const std::byte* obs, const Part& part, bool actor, bool value) const {
    HostObs host(spec_, normaliser_, tile_);
    put(host, 0, obs, part);
    return network_.forward(host.rows(), actor, value);
  }

  using Lanes = std::span<const std::unique_ptr<Lane>>;

  void on_gpu(Lanes lanes, const std::byte* obs, std::span<const Part> parts, bool actor,
              bool value, std::vector<Heads>& heads) const {
    const size_t at_once = kSlots * lanes.size();
    for (size_t i = 0; i < parts.size(); i += at_once) {
      some_on_gpu(lanes, obs, parts.subspan(i, std::min(at_once, parts.size() - i)), actor, value,
                  heads);
    }
  }

  // The host brings the rows of a tile together while the GPU is at those before.
  void some_on_gpu(Lanes lanes, const std::byte* obs, std::span<const Part> parts, bool actor,
                   bool value, std::vector<Heads>& heads) const {
    std::vector<Array> outputs;
    for (size_t i = 0; i < parts.size(); ++i) {
      Lane& lane = *lanes[i % lanes.size()];
      const Part& part = parts[i];
      const auto first = static_cast<int64_t>(i / lanes.size()) * tile_;
      put(lane.pinned, static_cast<size_t>(first), obs, part);
      lane.stream.start([&] {
        Pass& pass = lane.passes[actor ? 1 : 0][value ? 1 : 0];
        lane.obs.narrow(0, part.first, part.size)
            .copy_(lane.pinned.rows().narrow(0, first + part.first, part.size), true);
        run(pass, lane.obs, actor, value);
        outputs.push_back(pass.outputs.clone());
      });
    }
    Array here;
    for (const auto& lane : lanes.subspan(1)) lane->stream.finish();
    lanes.front()->stream.start([&] { here = at::cat(outputs).to(at::kCPU); });  // to its end
    const int64_t logits = here.size(1) - (value ? 1 : 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      const Array mine = here.narrow(0, static_cast<int64_t>(i) * tile_, tile_);
      heads.push_back({actor ? mine.narrow(1, 0, logits).contiguous() : Array(),
                       value ? mine.select(1, logits).contiguous() : Array()});
    }
  }

  // The first run is the rehearsal of the recording, the second one records it; another thread
  // rehearses, too, for what the libraries set up for a thread cannot be set up in a recording.
  void run(Pass& pass, const Array& obs, bool actor, bool value) const {
    const auto work = [&] {
      const Heads heads = network_.forward(obs, actor, value);
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
  const Beside beside_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Lane>> lanes_;  // that no thread is in
};

}  // namespace flotilla::torch_nn
