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

template <class Layers>
void learn_tile(Tile& tile, const LearnCall& call, int first) {
  const Plan& plan = tile.plan;
  const ChosenRows& chosen = call.rows;
  const bool box = plan.distribution == Distribution::kGaussian, masked = chosen.mask != nullptr;
  alignas(64) float logprob[kTile] = {}, entropy[kTile] = {}, nothing[kTile] = {};
  alignas(64) float d_logprob[kTile] = {}, d_entropy[kTile] = {};
  forward<Layers>(tile, call.actor, call.critic);
  const auto head = [&](const float* by_logprob, const float* by_entropy) {
    if (box) {
      gaussian_learn(tile, logprob, entropy, by_logprob, by_entropy, call.gradient + plan.log_std);
    } else {
      categorical_learn(tile, masked, chosen.epsilon, logprob, entropy, by_logprob, by_entropy);
    }
  };
  if (call.actor) head(nullptr, nullptr);
  float* d_value = tile.dout(1);
  call.loss(call.context, {tile.rows, chosen.sample + first, logprob, entropy,
                           call.critic ? tile.out(1) : nothing, d_logprob, d_entropy, d_value});
  for (int r = tile.rows; r < tile.padded_rows; ++r) d_logprob[r] = d_entropy[r] = d_value[r] = 0;
  if (call.actor) head(d_logprob, d_entropy);
  if (plan.conv_count > 0) {
    __builtin_memset(tile.work + plan.work_dx, 0,
                     static_cast<size_t>(tile.padded_rows * plan.input_stride) * sizeof(float));
  }
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    if (branch.first_head == 0 ? !call.actor : !call.critic) continue;
    if (plan.relu) {
      branch_backward<Layers, true>(tile, branch, call.gradient);
    } else {
      branch_backward<Layers, false>(tile, branch, call.gradient);
    }
  }
  if (plan.conv_count > 0) Torso<typename Layers::Convolutions>::backward(tile, call.gradient);
}

template <class Layers>
void learn(const Network& network, const LearnCall& call, float* work) {
  Tile tile{*network.plan, network, work};
  Layers::begin();
  tile.keeps = true;
  for (int first = 0; first < call.rows.count; first += tile.plan.tile) {
    gather(tile, call.rows, first);
    learn_tile<Layers>(tile, call, first);
  }
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
