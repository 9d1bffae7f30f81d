// Choosing actions and valuing observations, tile by tile.
// Part of kernel_body.h.
#pragma once

void put_rows(Tile& tile, const std::byte* obs, const uint8_t* mask, int first, int rows) {
  const size_t bytes = obs_bytes(tile.plan);
  for (int r = 0; r < rows; ++r) {
    put_obs(tile, r, obs + static_cast<size_t>(first + r) * bytes);
  }
  if (mask != nullptr) {
    put_masks(tile, rows, [&](int r) {
      return mask + static_cast<size_t>(first + r) * static_cast<size_t>(tile.plan.outputs);
    });
  }
  set_rows(tile, rows);
}

// `per_row` random words of each row, word w of row r at [w * kTile + r], uniform in [0, 1).
void draw_uniforms(const ActCall& call, int first_env, int rows, int per_row, float* uniform) {
  constexpr long kWords = static_cast<long>(kWordsAtOnce);
  uint32_t words[kWordsAtOnce];
  long have = -1;  // block of words at hand
  for (int r = 0; r < rows; ++r) {
    for (int w = 0; w < per_row; ++w) {
      const long k = static_cast<long>(first_env + r) * per_row + w;
      if (k / kWords != have) {
        have = k / kWords;
        random_words(call.seed, call.stream, static_cast<uint64_t>(have * kWords / 4), words);
      }
      uniform[w * kTile + r] = static_cast<float>(words[k % kWords] >> 8) * 0x1.0p-24f;
    }
  }
}

// Box and Muller; the cosine by the C library.
void to_normals(const float* uniform, int rows, int dims, float* normal) {
  for (int d = 0; d < dims; ++d) {
    for (int r = 0; r < rows; ++r) {
      const float u1 = uniform[2 * d * kTile + r], u2 = uniform[(2 * d + 1) * kTile + r];
      normal[d * kTile + r] = __builtin_sqrtf(-2.0f * __builtin_logf(1.0f - u1)) *
                              __builtin_cosf(6.2831853071795865f * u2);
    }
  }
}

// The most a tile draws and writes; boxes of more dimensions are not for this kernel.
constexpr int kMaxDims = 64;

template <class Layers>
void act_tile(Tile& tile, const ActCall& call, int first) {
  const Plan& plan = tile.plan;
  alignas(64) float uniform[2 * kMaxDims * kTile], latent[kMaxDims * kTile],
      action[kMaxDims * kTile];
  alignas(64) float logprob[kTile];
  const bool box = plan.distribution == Distribution::kGaussian;
  const int per_row = box ? 2 * plan.dims : plan.dims;
  forward<Layers>(tile, true, call.value != nullptr);
  if (!call.greedy) draw_uniforms(call, call.first_env + first, tile.rows, per_row, uniform);
  if (box) {
    if (!call.greedy) to_normals(uniform, tile.rows, plan.dims, latent);
    gaussian_act(tile, call, latent, latent, action, logprob);
  } else {
    categorical_act(tile, call, uniform, latent, logprob);
  }
  for (int r = 0; r < tile.rows; ++r) {
    for (int d = 0; d < plan.dims; ++d) {
      const long to = static_cast<long>(first + r) * plan.dims + d, from = d * kTile + r;
      if (box) {
        reinterpret_cast<float*>(call.action)[to] = action[from];
        if (call.latent != nullptr) reinterpret_cast<float*>(call.latent)[to] = latent[from];
      } else {
        const auto choice = static_cast<int32_t>(latent[from]);
        reinterpret_cast<int32_t*>(call.action)[to] = choice;
        if (call.latent != nullptr) reinterpret_cast<int32_t*>(call.latent)[to] = choice;
      }
    }
    if (call.logprob != nullptr) call.logprob[first + r] = logprob[r];
    if (call.value != nullptr) call.value[first + r] = tile.out(1)[r];
  }
}

template <class Layers>
void act(const Network& network, const ActCall& call, float* work) {
  Tile tile{*network.plan, network, work};
  Layers::begin();
  for (int first = 0; first < call.count; first += tile.plan.tile) {
    const int rows = rows_from(tile, first, call.count);
    put_rows(tile, call.obs, call.mask, first, rows);
    act_tile<Layers>(tile, call, first);
  }
  Layers::end();
}

template <class Layers>
void value(const Network& network, const std::byte* obs, int count, float* out, float* work) {
  Tile tile{*network.plan, network, work};
  Layers::begin();
  for (int first = 0; first < count; first += tile.plan.tile) {
    const int rows = rows_from(tile, first, count);
    put_rows(tile, obs, nullptr, first, rows);
    forward<Layers>(tile, false, true);
    for (int r = 0; r < rows; ++r) out[first + r] = tile.out(1)[r];
  }
  Layers::end();
}
