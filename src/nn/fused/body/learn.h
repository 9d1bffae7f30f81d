// Gradients of a shard of rows, and what the network makes of them, tile by tile.
// Part of kernel_body.h.
#pragma once

FLOTILLA_INLINE const std::byte* latent_of(const Plan& plan, const ChosenRows& call,
                                           size_t sample) {
  return call.latent + sample * static_cast<size_t>(plan.dims) * 4;
}

// Has the rows of the tile from `first` on brought nearer. They lie anywhere in a rollout, which
// no near cache holds, in an order that no CPU foresees. (Not inlined, g++ takes it for a function
// without effect and drops its calls.)
FLOTILLA_INLINE void prefetch(const Tile& tile, const ChosenRows& call, int first) {
  const Plan& plan = tile.plan;
  const auto bring = [](const void* from, size_t bytes) FLOTILLA_INLINE_LAMBDA {
    const auto* at = static_cast<const std::byte*>(from);
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
  };
  const size_t bytes = plan.conv_count > 0 ? 0 : obs_bytes(plan);
  const auto outputs = static_cast<size_t>(plan.outputs), dims = static_cast<size_t>(plan.dims);
  const int rows = rows_from(tile, first, call.count);
  for (int r = 0; r < rows; ++r) {
    const auto sample = static_cast<size_t>(call.sample[first + r]);
    bring(call.obs + sample * bytes, bytes);
    if (call.mask != nullptr) bring(call.mask + sample * outputs, outputs);
    bring(latent_of(plan, call, sample), dims * 4);
  }
}

// Puts rows from `first` on into the tile, as many as there are, and asks for those of the next.
void gather(Tile& tile, const ChosenRows& call, int first) {
  const int rows = rows_from(tile, first, call.count);
  const Plan& plan = tile.plan;
  const size_t bytes = obs_bytes(plan);
  const auto sample_of = [&](int r) { return static_cast<size_t>(call.sample[first + r]); };
  if (first == 0) prefetch(tile, call, first);
  for (int r = 0; r < rows; ++r) {
    put_obs(tile, r, call.obs + sample_of(r) * bytes);
    const std::byte* from = latent_of(plan, call, sample_of(r));
    for (int d = 0; d < plan.dims; ++d) {
      float* to = tile.latent() + d * kTile + r;
      if (plan.distribution == Distribution::kGaussian) {
        *to = reinterpret_cast<const float*>(from)[d];
      } else {
        *to = static_cast<float>(reinterpret_cast<const int32_t*>(from)[d]);
      }
    }
  }
  if (call.mask != nullptr) {
    put_masks(tile, rows,
              [&](int r) { return call.mask + sample_of(r) * static_cast<size_t>(plan.outputs); });
  }
  prefetch(tile, call, first + rows);
  set_rows(tile, rows);
  for (int r = rows; r < tile.padded_rows; ++r) {
    for (int d = 0; d < plan.dims; ++d) tile.latent()[d * kTile + r] = 0;
  }
}

// Of a tile, what its rows are worth and what the loss says about them.
struct TileLoss {
  alignas(64) float logprob[kTile] = {}, entropy[kTile] = {};
  alignas(64) float d_logprob[kTile] = {}, d_entropy[kTile] = {};
};

// Log-probability and entropy of the actions in the tile.
void see_heads(const Tile& tile, const ChosenRows& rows, float* logprob, float* entropy) {
  if (tile.plan.distribution == Distribution::kGaussian) {
    gaussian_see(tile, logprob, entropy);
  } else {
    categorical_see(tile, rows.mask != nullptr, rows.epsilon, logprob, entropy);
  }
}

// What the loss wants to know of the rows from `first` on.
template <class Layers>
void see_tile(Tile& tile, const LearnCall& call, int first, TileLoss& loss) {
  gather(tile, call.rows, first);
  forward<Layers>(tile, call.actor, call.critic);
  if (call.actor) see_heads(tile, call.rows, loss.logprob, loss.entropy);
}

// What the loss says to the outputs of heads: of values it is in tile.dout(1).
void take_loss(const Tile& tile, const LearnCall& call, TileLoss& loss) {
  float* d_value = tile.dout(1);
  for (int r = tile.rows; r < tile.padded_rows; ++r) {
    loss.d_logprob[r] = loss.d_entropy[r] = d_value[r] = 0;
  }
  if (!call.actor) return;
  if (tile.plan.distribution == Distribution::kGaussian) {
    gaussian_learn(tile, loss.d_logprob, loss.d_entropy, call.gradient + tile.plan.log_std);
  } else {
    categorical_learn(tile, call.rows.mask != nullptr, loss.d_logprob, loss.d_entropy);
  }
}

template <class Layers, bool kRelu>
void learn_branch(const Tile& tile, const Branch& branch, const LearnCall& call,
                  const DenseRows& dense, bool begins) {
  if (dense.numbers != nullptr) return branch_leave<Layers, kRelu>(tile, branch, dense);
  branch_backward<Layers, kRelu>(tile, branch, call.gradient, begins);
}

// Backwards from what the loss says of the call's rows from `first` on.
template <class Layers>
void learn_tile(Tile& tile, const LearnCall& call, int first, TileLoss& loss) {
  const Plan& plan = tile.plan;
  const bool begins = call.begins && first == 0;
  const bool is_last = first + tile.rows == call.rows.count;
  DenseRows dense = call.dense;
  dense.first += first;
  dense.count = is_last ? call.dense.count - first : tile.rows;
  if (begins && call.actor && plan.distribution == Distribution::kGaussian) {
    clear(call.gradient + plan.log_std, plan.dims);
  }
  take_loss(tile, call, loss);
  if (plan.has_torso()) {
    __builtin_memset(tile.work + plan.work_dx, 0,
                     static_cast<size_t>(tile.padded_rows * plan.input_stride) * sizeof(float));
  }
  if (dense.numbers != nullptr) {
    Layers::leave_input(dense, plan.layers[0], tile.x(), plan.input_stride, tile.rows);
  }
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    if (!is_trained(branch, call)) continue;
    if (plan.relu) {
      learn_branch<Layers, true>(tile, branch, call, dense, begins);
    } else {
      learn_branch<Layers, false>(tile, branch, call, dense, begins);
    }
  }
  if (plan.conv_count > 0) Torso<typename Layers::Convolutions>::backward(tile, call.gradient);
  if (plan.token_layer_count > 0) {
    attention_backward(plan, tile.tokens(), tile.work + plan.work_dx, plan.input_stride,
                       call.gradient);
  }
}

template <class Layers>
void learn(const Network& network, const LearnCall& call, float* work) {
  Tile tile{*network.plan, network, work};
  alignas(64) const float nothing[kTile] = {};
  Layers::begin();
  tile.keeps = true;
  for (int first = 0; first < call.rows.count; first += tile.plan.tile) {
    TileLoss loss;
    see_tile<Layers>(tile, call, first, loss);
    call.loss(call.context,
              {tile.rows, call.rows.sample + first, loss.logprob, loss.entropy,
               call.critic ? tile.out(1) : nothing, loss.d_logprob, loss.d_entropy, tile.dout(1)});
    learn_tile<Layers>(tile, call, first, loss);
  }
  Layers::end();
}

// Tiles keep what they saw until the loss of all rows is known.
template <class Layers>
void learn_together(const Network& network, const LearnCall& call, const SequenceRoom& room) {
  const Plan& plan = *network.plan;
  const auto each_tile = [&](auto body) {
    for (int first = 0; first < call.rows.count; first += plan.tile) {
      Tile tile{plan, network, room.works[first / plan.tile]};
      tile.keeps = true;
      set_rows(tile, rows_from(tile, first, call.rows.count));
      TileLoss loss;
      body(tile, first, loss);
    }
  };
  const auto copy = [](const float* from, int rows, float* to) {
    __builtin_memcpy(to, from, static_cast<size_t>(rows) * sizeof(float));
  };
  Layers::begin();
  each_tile([&](Tile& tile, int first, TileLoss& loss) {
    see_tile<Layers>(tile, call, first, loss);
    copy(loss.logprob, tile.rows, room.logprob + first);
    copy(loss.entropy, tile.rows, room.entropy + first);
    if (call.critic) copy(tile.out(1), tile.rows, room.value + first);
  });
  call.loss(call.context, {call.rows.count, call.rows.sample, room.logprob, room.entropy,
                           room.value, room.d_logprob, room.d_entropy, room.d_value});
  each_tile([&](Tile& tile, int first, TileLoss& loss) {
    copy(room.d_logprob + first, tile.rows, loss.d_logprob);
    copy(room.d_entropy + first, tile.rows, loss.d_entropy);
    copy(room.d_value + first, tile.rows, tile.dout(1));
    learn_tile<Layers>(tile, call, first, loss);
  });
  Layers::end();
}

template <class Layers>
void evaluate(const Network& network, const EvaluateCall& call, float* work) {
  Tile tile{*network.plan, network, work};
  alignas(64) float logprob[kTile], entropy[kTile];
  Layers::begin();
  for (int first = 0; first < call.rows.count; first += tile.plan.tile) {
    gather(tile, call.rows, first);
    forward<Layers>(tile, true, true);
    see_heads(tile, call.rows, logprob, entropy);
    for (int r = 0; r < tile.rows; ++r) {
      if (call.logprob != nullptr) call.logprob[first + r] = logprob[r];
      if (call.entropy != nullptr) call.entropy[first + r] = entropy[r];
      if (call.value != nullptr) call.value[first + r] = tile.out(1)[r];
    }
  }
  Layers::end();
}
