// Actions in a box: independent Gaussians, squashed or not.
// Part of kernel_body.h.
#pragma once

constexpr float kLogSqrtTwoPi = 0.91893853320467274f;

// log(1 - tanh(u)^2), without cancellation for large u.
FLOTILLA_INLINE V log_slope_of_tanh(V u) {
  const V size = max(u, -u);
  return 2.0f * (0.69314718f - size - log(1.0f + exp(-2.0f * size)));
}

FLOTILLA_INLINE V gaussian_logprob(const Plan& plan, const float* log_std, int d, V mean,
                                   V sample) {
  const V z = (sample - mean) * exp(splat(-log_std[d]));
  V logprob = fma(z * z, splat(-0.5f), splat(-log_std[d] - kLogSqrtTwoPi));
  if (plan.squash) {
    const float stretch = 0.5f * (plan.high[d] - plan.low[d]);
    logprob = logprob - log_slope_of_tanh(sample) - log(splat(stretch));
  }
  return logprob;
}

void gaussian_act(const Tile& tile, const ActCall& call, const float* normal, float* latent,
                  float* action, float* logprob) {
  const Plan& plan = tile.plan;
  const float* log_std = tile.net.params + plan.log_std;
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    V total = V{};
    for (int d = 0; d < plan.dims; ++d) {
      const long at = d * kTile + r;
      const V mean = load(tile.out(0) + at);
      const V sample = call.greedy ? mean : fma(load(normal + at), exp(splat(log_std[d])), mean);
      total = total + gaussian_logprob(plan, log_std, d, mean, sample);
      const V low = splat(plan.low[d]), high = splat(plan.high[d]);
      const V wide = plan.squash ? fma(tanh(sample) + 1.0f, 0.5f * (high - low), low) : sample;
      store(latent + at, sample);
      store(action + at, max(low, min(high, wide)));
    }
    store(logprob + r, total);
  }
}

void gaussian_see(const Tile& tile, float* logprob, float* entropy) {
  const Plan& plan = tile.plan;
  const float* log_std = tile.net.params + plan.log_std;
  float constant = 0;
  for (int d = 0; d < plan.dims; ++d) constant += log_std[d] + kLogSqrtTwoPi + 0.5f;
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    V total = V{};
    for (int d = 0; d < plan.dims; ++d) {
      const long at = d * kTile + r;
      total = total +
              gaussian_logprob(plan, log_std, d, load(tile.out(0) + at), load(tile.latent() + at));
    }
    store(logprob + r, total);
    store(entropy + r, splat(constant));
  }
}

void gaussian_learn(const Tile& tile, const float* d_logprob, const float* d_entropy,
                    float* d_log_std) {
  const Plan& plan = tile.plan;
  const float* log_std = tile.net.params + plan.log_std;
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    for (int d = 0; d < plan.dims; ++d) {
      const long at = d * kTile + r;
      const V mean = load(tile.out(0) + at), sample = load(tile.latent() + at);
      const V inverse = exp(splat(-log_std[d]));
      const V z = (sample - mean) * inverse, by_logprob = load(d_logprob + r);
      store(tile.dout(0) + at, by_logprob * z * inverse);
      const V by_log_std = fma(by_logprob, fma(z, z, splat(-1)), load(d_entropy + r));
      for (int lane = 0; lane < kLanes; ++lane) d_log_std[d] += by_log_std[lane];
    }
  }
}
