// Tours of many instances at once, node by node, by the rules of Decoding: the same arithmetic in
// single precision, so that both allow the same nodes.
//
// On CUDA the encoder and a block of decoding steps are recorded and replayed: a step is some forty
// small kernels.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "flotilla/domains/dvrp/oracle/decoding.h"
#include "flotilla/domains/dvrp/oracle/torch/network.h"
#include "flotilla/domains/dvrp/oracle/torch_oracle.h"
#include "flotilla/nn/torch/recording.h"

namespace flotilla::dvrp::torch_oracle {

using torch_nn::Recording;

// A batch on the device.
struct Nodes {
  Array cell, early, late;  // [instances, nodes]
  Array real;               // [instances, nodes]: 1 where there is a node
  Array missing;            // [instances, requests]: where there is no request

  Nodes(int64_t instances, int64_t nodes, at::Device device)
      : cell(at::zeros({instances, nodes}, at::device(device).dtype(at::kLong))),
        early(at::zeros({instances, nodes}, at::device(device))),
        late(at::zeros({instances, nodes}, at::device(device))),
        real(at::zeros({instances, nodes}, at::device(device))),
        missing(at::zeros({instances, nodes / 2}, at::device(device).dtype(at::kBool))) {}

  void fill(const NodeBatch& batch) {
    const auto copy = [](const auto& from, Array& to, at::ScalarType type) {
      using Value = typename std::decay_t<decltype(from)>::value_type;
      to.copy_(at::from_blob(const_cast<Value*>(from.data()), to.sizes(), at::dtype(type)));
    };
    copy(batch.cell, cell, at::kLong);
    copy(batch.early, early, at::kFloat);
    copy(batch.late, late, at::kFloat);
    const Array requests = at::empty({batch.instances, 1}, at::kLong);
    for (int i = 0; i < batch.instances; ++i) {
      requests.data_ptr<int64_t>()[i] = batch.requests[static_cast<size_t>(i)];
    }
    const Array here = requests.to(cell.device());
    const Array number = at::arange(cell.size(1), here.options());
    real.copy_(number.unsqueeze(0).le(2 * here));
    const Array request = at::arange(missing.size(1), here.options());
    missing.copy_(request.unsqueeze(0).ge(here));
  }
};

// The features of nodes, [instances, nodes, cells + 3].
inline Array features(const Nodes& nodes, const Array& ways) {
  const int64_t count = nodes.cell.size(1);
  const Array number = at::arange(count, nodes.cell.options());
  const Array demand = at::where(number.eq(0), at::zeros_like(number), number.remainder(2) * 2 - 1);
  const auto column = [](const Array& minutes) {
    return ((minutes - kDay / 2) / 240).unsqueeze(2);
  };
  return at::cat(
      {ways.index({nodes.cell}) / 20, demand.to(at::kFloat).expand(nodes.cell.sizes()).unsqueeze(2),
       column(nodes.early), column(nodes.late)},
      2);
}

class Decoder {
 public:
  // `sampled`: nodes are drawn; otherwise the likeliest ones are taken.
  Decoder(Network& network, const Array& ways, int64_t instances, int64_t nodes, bool sampled)
      : network_(network),
        sampled_(sampled),
        ways_(ways),
        nodes_(instances, nodes, ways.device()),
        current_(at::zeros({instances}, long_options())),
        time_(at::zeros({instances, 1}, ways.options())),
        step_(at::zeros({1}, long_options())),
        step_count_(at::zeros({1, 1}, ways.options())),
        status_(at::zeros({instances, nodes / 2}, long_options())),
        done_(at::zeros({instances}, ways.options().dtype(at::kBool))),
        most_steps_(most_decode_steps(static_cast<int>(nodes / 2))),
        chosen_(at::zeros({most_steps_ + kBlock, instances}, long_options())),
        noise_(at::zeros({kBlock, instances, nodes}, ways.options())),
        own_(at::eye(nodes / 2, ways.options()).to(at::kBool).unsqueeze(0)),
        request_of_((at::arange(nodes, long_options()) - 1).clamp_min(0).div(2, "floor")) {}

  std::vector<std::vector<int>> decode(const NodeBatch& batch, uint64_t seed) {
    const c10::NoGradGuard no_gradients;
    nodes_.fill(batch);
    auto generator = at::globalContext().defaultGenerator(ways_.device());
    if (sampled_) generator.set_current_seed(seed);
    run_begin();
    int steps = 0;
    while (steps < most_steps_) {
      if (sampled_) noise_.copy_(-(-noise_.uniform_(1e-10, 1).log()).log());
      run_block();
      steps += kBlock;
      if (done_.all().item<bool>()) break;
    }
    return take(steps);
  }

 private:
  static constexpr int kBlock = 8;  // steps of a graph
  enum { kWaiting, kOnBoard, kDelivered };

  at::TensorOptions long_options() const { return ways_.options().dtype(at::kLong); }

  void begin() {
    encoded_ = network_.encode(features(nodes_, ways_), nodes_.real, false);
    // Minutes between nodes, [instances, from, to].
    way_ = ways_.index({nodes_.cell.unsqueeze(2), nodes_.cell.unsqueeze(1)});
    dropoff_way_ = dropoffs(way_.slice(1, 1, way_.size(1), 2)).contiguous();
    dropoff_late_ = dropoffs(nodes_.late).unsqueeze(1).contiguous();
    current_.zero_();
    time_.zero_();
    step_.zero_();
    step_count_.zero_();
    status_.copy_(nodes_.missing.to(at::kLong) * kDelivered);
    chosen_.zero_();
    // The scalars of the context, with their scales; what is constant is part of the queries.
    const Array weights = network_.scalar_weights().t().contiguous();
    seats_weight_ = weights.slice(0, 0, 1) / 8;
    time_weight_ = weights.slice(0, 1, 2) / 240;
    step_weight_ = weights.slice(0, 2, 3) / 60;
    queries_ = encoded_.queries - time_weight_ * (kDay / 2);
  }

  static Array pickups(const Array& x) { return x.slice(-1, 1, x.size(-1), 2); }
  static Array dropoffs(const Array& x) { return x.slice(-1, 2, x.size(-1), 2); }

  void step(int in_block) {
    const int64_t count = current_.size(0), n = nodes_.cell.size(1);
    const Array here = current_.view({count, 1, 1});
    const Array arrival = time_ + way_.gather(1, here.expand({count, 1, n})).squeeze(1);
    const Array start = at::maximum(arrival, nodes_.early);
    const Array in_time = arrival.le(nodes_.late);
    const Array on_board = status_.eq(kOnBoard);
    const Array seats = kCapacity - on_board.sum(1, true, at::kFloat);
    // From every pickup to every drop-off: those on board and its own must be reached.
    const Array reach = (pickups(start).unsqueeze(2) + dropoff_way_).le(dropoff_late_);
    const Array needed = on_board.unsqueeze(1).logical_or(own_);
    const Array pick = reach.ge(needed)
                           .all(2)
                           .logical_and(status_.eq(kWaiting))
                           .logical_and(pickups(in_time))
                           .logical_and(seats.gt(0));
    const Array drop = on_board.logical_and(dropoffs(in_time));
    const Array depot = current_.ne(0).gt(drop.any(1));  // and nobody can be delivered
    const Array stops = at::stack({pick, drop}, 2).flatten(1);
    // Nothing is allowed: all are delivered, or it failed.
    done_.copy_(stops.any(1).logical_or(depot).logical_not());
    const Array hidden = at::cat({depot.logical_or(done_).unsqueeze(1), stops}, 1).logical_not();

    Array query = queries_.gather(1, here.expand({count, 1, kOracleWidth})).squeeze(1);
    query.addcmul_(seats, seats_weight_);
    query.addcmul_(time_, time_weight_);
    query.addcmul_(step_count_, step_weight_);
    Array scores = Network::scores(encoded_, query.unsqueeze(1), hidden.unsqueeze(1)).squeeze(1);
    if (sampled_) scores = scores.tanh().mul_(kOracleClip).add_(noise_[in_block]);
    const Array chosen = scores.masked_fill_(hidden, -INFINITY).argmax(1, true);
    chosen_.index_copy_(0, step_, chosen.t());

    const Array moves = chosen.ne(0);
    // Whoever is on board at the depot waits again; a stop takes its request one state further.
    status_.sub_(on_board.gt(moves).to(at::kLong));
    status_.scatter_add_(1, request_of_.index({chosen}), moves.to(at::kLong));
    time_.copy_(start.gather(1, chosen) * moves);
    current_.copy_(chosen.squeeze(1));
    step_.add_(1);
    step_count_.add_(1);
  }

  void block() {
    for (int i = 0; i < kBlock; ++i) step(i);
  }

  // By instance, up to the depot behind the last stop.
  std::vector<std::vector<int>> take(int steps) const {
    const Array here = chosen_.slice(0, 0, steps).t().contiguous().to(at::kCPU);
    const int64_t* at = here.data_ptr<int64_t>();
    std::vector<std::vector<int>> tours;
    for (int64_t i = 0; i < here.size(0); ++i, at += here.size(1)) {
      int64_t length = here.size(1);
      while (length > 0 && at[length - 1] == 0) --length;
      std::vector<int>& tour = tours.emplace_back(at, at + length);
      if (length > 0) tour.push_back(0);
    }
    return tours;
  }

  void run_begin() {
    if (!ways_.is_cuda()) return begin();
    if (!begin_recording_.made()) {
      const auto work = [this] { begin(); };
      Recording::rehearse(work);
      begin_recording_.record(work);
    }
    begin_recording_.replay();
  }
  void run_block() {
    if (!ways_.is_cuda()) return block();
    if (!block_recording_.made()) {
      const auto work = [this] { block(); };
      Recording::rehearse(work);
      block_recording_.record(work);
      begin_recording_.replay();  // the block was rehearsed on the state
    }
    block_recording_.replay();
  }

  Recording begin_recording_, block_recording_;
  Network& network_;
  const bool sampled_;
  const Array ways_;  // minutes between cells
  Nodes nodes_;
  Encoded encoded_;
  Array way_, dropoff_way_, dropoff_late_;
  Array queries_, seats_weight_, time_weight_, step_weight_;
  Array current_, time_, step_, step_count_, status_, done_;
  const int most_steps_;
  Array chosen_;  // [steps, instances]
  Array noise_;
  const Array own_;         // [1, requests, requests]: the diagonal
  const Array request_of_;  // by node
};

}  // namespace flotilla::dvrp::torch_oracle
