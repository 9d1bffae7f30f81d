// Discrete actions, of one or several dimensions: choosing, log-probability, entropy and their
// derivatives, for a vector of rows at a time.
// Part of kernel_body.h.
#pragma once

constexpr float kNever = -1e30f;  // logit of a choice that is not open

// Of one dimension, for one vector of rows. The exponentials of choice o are at p + o * p_row.
struct Softmax {
  V top, sum, log_sum, open;  // open: number of open choices
};

FLOTILLA_INLINE V masked_logit(const float* logit, const float* mask, long at) {
  return mask == nullptr ? load(logit + at)
                         : (load(mask + at) > 0.5f ? load(logit + at) : splat(kNever));
}

FLOTILLA_INLINE Softmax softmax(const float* logit, const float* mask, int choices, int r, float* p,
                                long p_row) {
  Softmax s;
  s.top = splat(kNever);
  for (int o = 0; o < choices; ++o) s.top = max(s.top, masked_logit(logit, mask, o * kTile + r));
  s.sum = s.open = V{};
  for (int o = 0; o < choices; ++o) {
    const long at = o * kTile + r;
    V e = exp(load(logit + at) - s.top);
    if (mask != nullptr) e = e * load(mask + at);
    store(p + o * p_row, e);
    s.sum = s.sum + e;
    s.open = s.open + (mask == nullptr ? splat(1) : load(mask + at));
  }
  s.log_sum = log(s.sum);
  return s;
}

// log of (1 - epsilon) * softmax + epsilon / open, and what a change of the softmax's own
// logarithm is multiplied with.
FLOTILLA_INLINE V mixed_logprob(const Softmax& s, V logit, float epsilon, V& factor) {
  const V pure = logit - s.top - s.log_sum;
  factor = splat(1);
  if (epsilon == 0) return pure;
  const V kept = (1.0f - epsilon) * exp(pure);
  const V mixed = kept + epsilon / s.open;
  factor = kept / mixed;
  return log(mixed);
}

// The choice for each lane: the last open one whose predecessors have at most u of the
// probability; or the likeliest.
FLOTILLA_INLINE V choose(const Softmax& s, const float* p, const float* mask, int choices, int r,
                         float epsilon, bool greedy, V u) {
  V chosen = V{}, passed = V{}, best = splat(-1);
  const V scale = (1.0f - epsilon) / s.sum, even = epsilon / s.open;
  const V limit = epsilon == 0 ? u * s.sum : u;
  for (int o = 0; o < choices; ++o) {
    V q = load(p + o * kLanes);
    const V open = mask == nullptr ? splat(1) : load(mask + o * kTile + r);
    if (epsilon != 0) q = fma(q, scale, even * open);
    const V index = splat(static_cast<float>(o));
    if (greedy) {
      const auto better = (open > 0.5f) & (q > best);
      chosen = better ? index : chosen;
      best = better ? q : best;
    } else {
      chosen = ((q > V{}) & (passed <= limit)) ? index : chosen;
      passed = passed + q;
    }
  }
  return chosen;
}

FLOTILLA_INLINE V logit_of(const float* logit, int choices, int r, V chosen) {
  V value = V{};
  for (int o = 0; o < choices; ++o) {
    value = chosen == splat(static_cast<float>(o)) ? load(logit + o * kTile + r) : value;
  }
  return value;
}

// u of row r, dimension d at uniform[d * kTile + r].
void categorical_act(const Tile& tile, const ActCall& call, const float* uniform, float* choice,
                     float* logprob) {
  const Plan& plan = tile.plan;
  const bool masked = call.mask != nullptr;
  alignas(64) float p[256 * kLanes];
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    V total = V{};
    const float* logit = tile.out(0);
    const float* mask = masked ? tile.mask() : nullptr;
    for (int d = 0; d < plan.dims; ++d) {
      const int choices = plan.choices[d];
      const Softmax s = softmax(logit, mask, choices, r, p, kLanes);
      const V chosen =
          choose(s, p, mask, choices, r, call.epsilon, call.greedy, load(uniform + d * kTile + r));
      store(choice + d * kTile + r, chosen);
      V factor;
      total = total + mixed_logprob(s, logit_of(logit, choices, r, chosen), call.epsilon, factor);
      logit += choices * kTile;
      if (masked) mask += choices * kTile;
    }
    store(logprob + r, total);
  }
}

// Calls each(d, first, choices) for every dimension, whose logits, masks and derivatives are at
// first of those of all dimensions.
template <class Each>
FLOTILLA_INLINE void for_each_dimension(const Plan& plan, Each each) {
  long first = 0;
  for (int d = 0; d < plan.dims; ++d) {
    each(d, first, plan.choices[d]);
    first += static_cast<long>(plan.choices[d]) * kTile;
  }
}

// Log-probability and entropy of the choices in latent(). Keeps what their derivatives need: the
// exponentials in dout(0), and vectors of numbers in kept_softmax().
void categorical_see(const Tile& tile, bool masked, float epsilon, float* logprob, float* entropy) {
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    V total = V{}, total_entropy = V{};
    for_each_dimension(tile.plan, [&](int d, long first, int choices) FLOTILLA_INLINE_LAMBDA {
      const float* logit = tile.out(0) + first;
      const float* mask = masked ? tile.mask() + first : nullptr;
      float* p = tile.dout(0) + first + r;
      const Softmax s = softmax(logit, mask, choices, r, p, kTile);
      const V chosen = load(tile.latent() + d * kTile + r);
      V factor;
      total = total + mixed_logprob(s, logit_of(logit, choices, r, chosen), epsilon, factor);
      const V inverse = 1.0f / s.sum;
      V mean = V{};  // of logit - top
      for (int o = 0; o < choices; ++o) {
        mean = fma(load(p + o * kTile) * inverse, masked_logit(logit, mask, o * kTile + r) - s.top,
                   mean);
      }
      const V h = s.log_sum - mean;
      total_entropy = total_entropy + h;
      float* kept = tile.kept_softmax(d) + r;
      store(kept, s.top);
      store(kept + kTile, s.log_sum);
      store(kept + 2 * kTile, inverse);
      store(kept + 3 * kTile, factor);
      store(kept + 4 * kTile, h);
    });
    store(logprob + r, total);
    store(entropy + r, total_entropy);
  }
}

// Derivatives by the logits. REQUIRES: categorical_see() of the tile.
void categorical_learn(const Tile& tile, bool masked, const float* d_logprob,
                       const float* d_entropy) {
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    for_each_dimension(tile.plan, [&](int d, long first, int choices) FLOTILLA_INLINE_LAMBDA {
      const float* logit = tile.out(0) + first;
      const float* mask = masked ? tile.mask() + first : nullptr;
      const float* kept = tile.kept_softmax(d) + r;
      const V top = load(kept), log_sum = load(kept + kTile), inverse = load(kept + 2 * kTile);
      const V factor = load(kept + 3 * kTile), h = load(kept + 4 * kTile);
      const V chosen = load(tile.latent() + d * kTile + r);
      const V by_logprob = load(d_logprob + r) * factor, by_entropy = load(d_entropy + r);
      float* d_logit = tile.dout(0) + first + r;
      for (int o = 0; o < choices; ++o) {
        const V q = load(d_logit + o * kTile) * inverse;
        const V taken = chosen == splat(static_cast<float>(o)) ? splat(1) : V{};
        const V log_q = masked_logit(logit, mask, o * kTile + r) - top - log_sum;
        store(d_logit + o * kTile, fma(by_logprob, taken - q, -(by_entropy * q * (log_q + h))));
      }
    });
  }
}
