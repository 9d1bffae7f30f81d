// Gradients of a shard of rows, and what the network makes of them, tile by tile.
// Part of kernel_body.h.
#pragma once

// Puts rows from `first` on into the tile, as many as there are.
void gather(Tile& tile, const ChosenRows& call, int first) {
  const int rows = rows_from(tile, first, call.count);
  const Plan& plan = tile.plan;
  const size_t bytes = obs_bytes(plan);
  for (int r = 0; r < rows; ++r) {
    const auto sample = static_cast<size_t>(call.sample[first + r]);
    put_obs(tile, r, call.obs + sample * bytes);
    if (call.mask != nullptr)
      put_mask(tile, r, call.mask + sample * static_cast<size_t>(plan.outputs));
    const std::byte* from = call.latent + sample * static_cast<size_t>(plan.dims) * 4;
    for (int d = 0; d < plan.dims; ++d) {
      float* to = tile.latent() + d * kTile + r;
      if (plan.distribution == Distribution::kGaussian) {
        *to = reinterpret_cast<const float*>(from)[d];
      } else {
        *to = static_cast<float>(reinterpret_cast<const int32_t*>(from)[d]);
      }
    }
  }
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

void heads(const Tile& tile, const LearnCall& call, TileLoss& loss, const float* by_logprob,
           const float* by_entropy) {
  if (!call.actor) return;
  const ChosenRows& chosen = call.rows;
  if (tile.plan.distribution == Distribution::kGaussian) {
    gaussian_learn(tile, loss.logprob, loss.entropy, by_logprob, by_entropy,
                   call.gradient + tile.plan.log_std);
  } else {
    categorical_learn(tile, chosen.mask != nullptr, chosen.epsilon, loss.logprob, loss.entropy,
                      by_logprob, by_entropy);
  }
}

// What the loss wants to know of the rows from `first` on.
template <class Layers>
void see_tile(Tile& tile, const LearnCall& call, int first, TileLoss& loss) {
  gather(tile, call.rows, first);
  forward<Layers>(tile, call.actor, call.critic);
  heads(tile, call, loss, nullptr, nullptr);
}

// What the loss says to the outputs of heads: of values it is in tile.dout(1).
void take_loss(const Tile& tile, const LearnCall& call, TileLoss& loss) {
  float* d_value = tile.dout(1);
  for (int r = tile.rows; r < tile.padded_rows; ++r) {
    loss.d_logprob[r] = loss.d_entropy[r] = d_value[r] = 0;
  }
  heads(tile, call, loss, loss.d_logprob, loss.d_entropy);
}

bool is_trained(const Branch& branch, const LearnCall& call) {
  return branch.first_head == 0 ? call.actor : call.critic;
}

// Backwards from what the loss says.
template <class Layers>
void learn_tile(Tile& tile, const LearnCall& call, TileLoss& loss, bool begins) {
  const Plan& plan = tile.plan;
  if (begins && call.actor && plan.distribution == Distribution::kGaussian) {
    clear(call.gradient + plan.log_std, plan.dims);
  }
  take_loss(tile, call, loss);
  if (plan.has_torso()) {
    __builtin_memset(tile.work + plan.work_dx, 0,
                     static_cast<size_t>(tile.padded_rows * plan.input_stride) * sizeof(float));
  }
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    if (!is_trained(branch, call)) continue;
    if (plan.relu) {
      branch_backward<Layers, true>(tile, branch, call.gradient, begins);
    } else {
      branch_backward<Layers, false>(tile, branch, call.gradient, begins);
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
    learn_tile<Layers>(tile, call, loss, call.begins && first == 0);
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
    learn_tile<Layers>(tile, call, loss, false);
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
    if (network.plan->distribution == Distribution::kGaussian) {
      gaussian_learn(tile, logprob, entropy, nullptr, nullptr, nullptr);
    } else {
      categorical_learn(tile, call.rows.mask != nullptr, call.rows.epsilon, logprob, entropy,
                        nullptr, nullptr);
    }
    for (int r = 0; r < tile.rows; ++r) {
      if (call.logprob != nullptr) call.logprob[first + r] = logprob[r];
      if (call.entropy != nullptr) call.entropy[first + r] = entropy[r];
      if (call.value != nullptr) call.value[first + r] = tile.out(1)[r];
    }
  }
  Layers::end();
}
