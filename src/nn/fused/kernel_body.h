// The kernels themselves. Each kernel_*.cpp includes this once, inside a namespace of its CPU and
// after simd.h; nothing here may use the standard library (see plan.h).
#pragma once

// ---- products of matrices ------------------------------------------------------------------

// C[R][N] = start + sum over k of A(r, k) * B[k][N], with N vectors of columns. A is read one
// number at a time, so its rows and columns may be swapped by their strides. The accumulators
// stay in registers: 6 x 4 of 32.
template <int R, int N, class Start, class End>
FLOTILLA_INLINE void block(const float* a, long a_row, long a_k, const float* b, long b_k,
                           int depth, Start start, End end) {
  V sum[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sum[r][n] = start(r, n);
  }
  for (int k = 0; k < depth; ++k) {
    V column[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) column[n] = load(b + k * b_k + n * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const V x = splat(a[r * a_row + k * a_k]);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[r][n] = fma(x, column[n], sum[r][n]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) end(r, n, sum[r][n]);
  }
}

// All rows of one strip of N vectors of columns. start(row, n) and end(row, n, sum) take the row
// in the whole matrix.
template <int N, class Start, class End>
FLOTILLA_INLINE void strip(int rows, const float* a, long a_row, long a_k, const float* b, long b_k,
                           int depth, Start start, End end) {
  int row = 0;
  const auto some = [&]<int R>() FLOTILLA_INLINE_LAMBDA {
    block<R, N>(
        a + row * a_row, a_row, a_k, b, b_k, depth,
        [&](int r, int n) FLOTILLA_INLINE_LAMBDA { return start(row + r, n); },
        [&](int r, int n, V sum) FLOTILLA_INLINE_LAMBDA { end(row + r, n, sum); });
    row += R;
  };
  while (rows - row >= kBlockRows) some.template operator()<kBlockRows>();
  if (rows - row >= 4) some.template operator()<4>();
  if (rows - row >= 2) some.template operator()<2>();
  if (rows - row >= 1) some.template operator()<1>();
}

// Calls strip for every strip of `columns`; at(column) gives start and end of the strip.
template <class At>
FLOTILLA_INLINE void product(int rows, int columns, const float* a, long a_row, long a_k,
                             const float* b, long b_k, int depth, At at) {
  int column = 0;
  const auto some = [&]<int N>() FLOTILLA_INLINE_LAMBDA {
    const auto ends = at(column);
    strip<N>(rows, a, a_row, a_k, b + column, b_k, depth, ends.start, ends.end);
    column += N * kLanes;
  };
  while (columns - column >= kBlockVectors * kLanes) some.template operator()<kBlockVectors>();
  if (kBlockVectors > 3 && columns - column >= 3 * kLanes) some.template operator()<3>();
  if (kBlockVectors > 2 && columns - column >= 2 * kLanes) some.template operator()<2>();
  if (columns - column >= kLanes) some.template operator()<1>();
}

template <class Start, class End>
struct Ends {
  Start start;
  End end;
};
template <class Start, class End>
Ends(Start, End) -> Ends<Start, End>;

// ---- layers ----------------------------------------------------------------------------------

template <bool kRelu>
FLOTILLA_INLINE V activate(V x) {
  if constexpr (kRelu) return max(x, V{});
  return tanh(x);
}

// Of the activation, from its result.
template <bool kRelu>
FLOTILLA_INLINE V slope(V h) {
  if constexpr (kRelu) return h > V{} ? splat(1) : V{};
  return fma(-h, h, splat(1));
}

template <bool kRelu>
void layer_forward(const Layer& layer, const float* params, const float* x, long x_row, int rows,
                   float* h) {
  const float* bias = params + layer.bias;
  const long width = layer.out;
  product(rows, layer.out, x, x_row, 1, params + layer.weight, width, layer.in, [&](int column) {
    return Ends{[=](int, int n) FLOTILLA_INLINE_LAMBDA { return load(bias + column + n * kLanes); },
                [=](int r, int n, V sum) FLOTILLA_INLINE_LAMBDA {
                  store(h + r * width + column + n * kLanes, activate<kRelu>(sum));
                }};
  });
}

// d_below = (d * W^T) * slope(h_below)
template <bool kRelu>
void layer_backward(const Layer& layer, const float* derived, const float* d, int rows,
                    const float* h_below, float* d_below) {
  const long width = layer.in;
  product(rows, layer.in, d, layer.out, 1, derived + layer.transposed, width, layer.out,
          [&](int column) {
            return Ends{[](int, int) FLOTILLA_INLINE_LAMBDA { return V{}; },
                        [=](int r, int n, V sum) FLOTILLA_INLINE_LAMBDA {
                          const long at = r * width + column + n * kLanes;
                          store(d_below + at, sum * slope<kRelu>(load(h_below + at)));
                        }};
          });
}

// target[rows][columns] += sum over k of A(r, k) * B[k][columns]
void add_product(int rows, int columns, const float* a, long a_row, long a_k, const float* b,
                 long b_k, int depth, float* target) {
  const long width = columns;
  product(rows, columns, a, a_row, a_k, b, b_k, depth, [&](int column) {
    return Ends{
        [=](int r, int n)
            FLOTILLA_INLINE_LAMBDA { return load(target + r * width + column + n * kLanes); },
        [=](int r, int n, V sum)
            FLOTILLA_INLINE_LAMBDA { store(target + r * width + column + n * kLanes, sum); }};
  });
}

void add_column_sums(const float* d, int rows, int columns, float* target) {
  for (int column = 0; column < columns; column += kLanes) {
    V sum = load(target + column);
    for (int r = 0; r < rows; ++r) sum = sum + load(d + r * columns + column);
    store(target + column, sum);
  }
}

// ---- heads: outputs are kept by output, [output][kTile] ----------------------------------------

void small_head_forward(const Head& head, const float* params, const float* h, long h_row, int rows,
                        float* out) {
  for (int o = 0; o < head.out; ++o) {
    const float* weight = params + head.weight + static_cast<long>(o) * head.in;
    const V bias = splat(params[head.bias + o]);
    for (int first = 0; first < rows; first += kLanes) {
      V t[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) {
        const float* row = h + (first + r) * h_row;
        V sum = V{};
        for (int k = 0; k < head.in; k += kLanes) sum = fma(load(row + k), load(weight + k), sum);
        t[r] = sum;
      }
      store(out + o * kTile + first, lane_sums(t) + bias);
    }
  }
}

void large_head_forward(const Head& head, const float* params, const float* derived, const float* h,
                        long h_row, int rows, float* by_row, float* out) {
  const long width = padded(head.out);
  const float* bias = params + head.bias;
  product(rows, static_cast<int>(width), h, h_row, 1, derived + head.columns, width, head.in,
          [&](int column) {
            return Ends{[=](int, int n)
                            FLOTILLA_INLINE_LAMBDA { return load(bias + column + n * kLanes); },
                        [=](int r, int n, V sum) FLOTILLA_INLINE_LAMBDA {
                          store(by_row + r * width + column + n * kLanes, sum);
                        }};
          });
  for (int o = 0; o < head.out; ++o) {
    for (int r = 0; r < rows; ++r) out[o * kTile + r] = by_row[r * width + o];
  }
}

// ---- one tile
// ------------------------------------------------------------------------------------

struct Tile {
  const Plan& plan;
  const Network& net;
  float* work;
  int rows = 0;         // that are filled
  int padded_rows = 0;  // whole vectors of them; the rest is zero

  float* x() const { return work + plan.work_x; }
  float* out(int head) const {
    return work + plan.work_out + plan.heads[head].first_output * kTile;
  }
  float* dout(int head) const {
    return work + plan.work_dout + plan.heads[head].first_output * kTile;
  }
  float* mask() const { return work + plan.work_mask; }
  float* latent() const { return work + plan.work_latent; }

  // What a layer or a head reads.
  const float* input(const Branch& branch, int layer) const {
    return layer == 0 ? x() : work + plan.layers[branch.first_layer + layer - 1].work;
  }
  long input_row(const Branch& branch, int layer) const {
    return layer == 0 ? plan.input_stride : plan.layers[branch.first_layer + layer - 1].out;
  }
};

FLOTILLA_INLINE float clipped(float x, float limit) {
  return x < -limit ? -limit : (x > limit ? limit : x);
}

void put_obs(const Tile& tile, int row, const std::byte* obs) {
  const Plan& plan = tile.plan;
  float* x = tile.x() + static_cast<long>(row) * plan.input_stride;
  if (plan.bytes) {
    const auto* from = reinterpret_cast<const uint8_t*>(obs);
    for (int i = 0; i < plan.inputs; ++i) x[i] = static_cast<float>(from[i]);
  } else {
    const auto* from = reinterpret_cast<const float*>(obs);
    for (int i = 0; i < plan.inputs; ++i) x[i] = from[i];
  }
  if (!plan.normalise) return;
  for (int i = 0; i < plan.inputs; ++i) {
    x[i] = clipped((x[i] - tile.net.obs_mean[i]) * tile.net.obs_scale[i], plan.obs_clip);
  }
}

size_t obs_bytes(const Plan& plan) {
  return static_cast<size_t>(plan.inputs) * (plan.bytes ? 1 : sizeof(float));
}

void put_mask(const Tile& tile, int row, const uint8_t* mask) {
  for (int o = 0; o < tile.plan.outputs; ++o)
    tile.mask()[o * kTile + row] = mask[o] != 0 ? 1.0f : 0.0f;
}

// Sets the number of rows and clears those that fill the last vector.
void set_rows(Tile& tile, int rows) {
  tile.rows = rows;
  tile.padded_rows = padded(rows, kLanes);
  for (int row = rows; row < tile.padded_rows; ++row) {
    __builtin_memset(tile.x() + static_cast<long>(row) * tile.plan.input_stride, 0,
                     static_cast<size_t>(tile.plan.input_stride) * sizeof(float));
    for (int o = 0; o < tile.plan.outputs; ++o) tile.mask()[o * kTile + row] = 1.0f;
  }
}

template <bool kRelu>
void branch_forward(const Tile& tile, const Branch& branch, int first_head, int heads) {
  const Plan& plan = tile.plan;
  for (int l = 0; l < branch.layers; ++l) {
    const Layer& layer = plan.layers[branch.first_layer + l];
    layer_forward<kRelu>(layer, tile.net.params, tile.input(branch, l), tile.input_row(branch, l),
                         tile.padded_rows, tile.work + layer.work);
  }
  const float* top = tile.input(branch, branch.layers);
  const long row = tile.input_row(branch, branch.layers);
  for (int i = first_head; i < first_head + heads; ++i) {
    const Head& head = plan.heads[i];
    if (head.out <= kSmallHead) {
      small_head_forward(head, tile.net.params, top, row, tile.padded_rows, tile.out(i));
    } else {
      large_head_forward(head, tile.net.params, tile.net.derived, top, row, tile.padded_rows,
                         tile.work + plan.work_rows, tile.out(i));
    }
  }
}

// The heads asked for (0: actor, 1: critic), through the branches they stand on.
void forward(const Tile& tile, bool actor, bool critic) {
  for (int b = 0; b < tile.plan.branch_count; ++b) {
    const Branch& branch = tile.plan.branches[b];
    int first = branch.first_head, last = branch.first_head + branch.heads;
    if (!actor && first == 0) first = 1;
    if (!critic && last == 2) last = 1;
    if (first >= last) continue;
    if (tile.plan.relu) {
      branch_forward<true>(tile, branch, first, last - first);
    } else {
      branch_forward<false>(tile, branch, first, last - first);
    }
  }
}

template <bool kRelu>
void branch_backward(const Tile& tile, const Branch& branch, float* gradient) {
  const Plan& plan = tile.plan;
  const int rows = tile.padded_rows;
  const float* top = tile.input(branch, branch.layers);
  const long top_row = tile.input_row(branch, branch.layers);
  float* d = tile.work + plan.work_d0;
  float* d_below = tile.work + plan.work_d1;
  for (int i = branch.first_head; i < branch.first_head + branch.heads; ++i) {
    const Head& head = plan.heads[i];
    const float* dout = tile.dout(i);
    add_product(head.out, head.in, dout, kTile, 1, top, top_row, rows, gradient + head.weight);
    for (int o = 0; o < head.out; ++o) {
      V sum = V{};
      for (int r = 0; r < rows; r += kLanes) sum = sum + load(dout + o * kTile + r);
      float total = 0;
      for (int lane = 0; lane < kLanes; ++lane) total += sum[lane];
      gradient[head.bias + o] += total;
    }
    if (branch.layers == 0) continue;
    const bool first = i == branch.first_head, last = i == branch.first_head + branch.heads - 1;
    const long width = head.in;
    product(rows, head.in, dout, 1, kTile, tile.net.params + head.weight, width, head.out,
            [&](int column) {
              return Ends{[=](int r, int n) FLOTILLA_INLINE_LAMBDA {
                            return first ? V{} : load(d + r * width + column + n * kLanes);
                          },
                          [=](int r, int n, V sum) FLOTILLA_INLINE_LAMBDA {
                            const long at = r * width + column + n * kLanes;
                            store(d + at, last ? sum * slope<kRelu>(load(top + at)) : sum);
                          }};
            });
  }
  for (int l = branch.layers - 1; l >= 0; --l) {
    const Layer& layer = plan.layers[branch.first_layer + l];
    add_product(layer.in, layer.out, tile.input(branch, l), 1, tile.input_row(branch, l), d,
                layer.out, rows, gradient + layer.weight);
    add_column_sums(d, rows, layer.out, gradient + layer.bias);
    if (l == 0) break;
    layer_backward<kRelu>(layer, tile.net.derived, d, rows, tile.input(branch, l), d_below);
    float* swap = d;
    d = d_below;
    d_below = swap;
  }
}

// ---- categorical actions, one or several dimensions ---------------------------------------------

constexpr float kNever = -1e30f;  // logit of a choice that is not open

// Of one dimension, for one vector of rows. `p` holds the exponentials, by choice.
struct Softmax {
  V top, sum, log_sum, open;  // open: number of open choices
};

FLOTILLA_INLINE V masked_logit(const float* logit, const float* mask, long at) {
  return mask == nullptr ? load(logit + at)
                         : (load(mask + at) > 0.5f ? load(logit + at) : splat(kNever));
}

FLOTILLA_INLINE Softmax softmax(const float* logit, const float* mask, int choices, int r,
                                float* p) {
  Softmax s;
  s.top = splat(kNever);
  for (int o = 0; o < choices; ++o) s.top = max(s.top, masked_logit(logit, mask, o * kTile + r));
  s.sum = s.open = V{};
  for (int o = 0; o < choices; ++o) {
    const long at = o * kTile + r;
    V e = exp(load(logit + at) - s.top);
    if (mask != nullptr) e = e * load(mask + at);
    store(p + o * kLanes, e);
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
      const Softmax s = softmax(logit, mask, choices, r, p);
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

// Log-probability and entropy of the choices in latent(); or, given the derivatives by them, those
// of the logits.
void categorical_learn(const Tile& tile, bool masked, float epsilon, float* logprob, float* entropy,
                       const float* d_logprob, const float* d_entropy) {
  const Plan& plan = tile.plan;
  alignas(64) float p[256 * kLanes];
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    V total = V{}, total_entropy = V{};
    const float* logit = tile.out(0);
    float* d_logit = tile.dout(0);
    const float* mask = masked ? tile.mask() : nullptr;
    for (int d = 0; d < plan.dims; ++d) {
      const int choices = plan.choices[d];
      const Softmax s = softmax(logit, mask, choices, r, p);
      const V chosen = load(tile.latent() + d * kTile + r);
      V factor;
      total = total + mixed_logprob(s, logit_of(logit, choices, r, chosen), epsilon, factor);
      const V inverse = 1.0f / s.sum;
      V mean = V{};  // of logit - top
      for (int o = 0; o < choices; ++o) {
        mean = fma(load(p + o * kLanes) * inverse, masked_logit(logit, mask, o * kTile + r) - s.top,
                   mean);
      }
      const V h = s.log_sum - mean;
      total_entropy = total_entropy + h;
      if (d_logprob != nullptr) {
        const V by_logprob = load(d_logprob + r) * factor, by_entropy = load(d_entropy + r);
        for (int o = 0; o < choices; ++o) {
          const long at = o * kTile + r;
          const V q = load(p + o * kLanes) * inverse;
          const V taken = chosen == splat(static_cast<float>(o)) ? splat(1) : V{};
          const V log_q = masked_logit(logit, mask, at) - s.top - s.log_sum;
          store(d_logit + at, fma(by_logprob, taken - q, -(by_entropy * q * (log_q + h))));
        }
        d_logit += choices * kTile;
      }
      logit += choices * kTile;
      if (masked) mask += choices * kTile;
    }
    if (d_logprob == nullptr) {
      store(logprob + r, total);
      store(entropy + r, total_entropy);
    }
  }
}

// ---- a box: independent Gaussians
// ------------------------------------------------------------------

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

void gaussian_learn(const Tile& tile, float* logprob, float* entropy, const float* d_logprob,
                    const float* d_entropy, float* d_log_std) {
  const Plan& plan = tile.plan;
  const float* log_std = tile.net.params + plan.log_std;
  float constant = 0;
  for (int d = 0; d < plan.dims; ++d) constant += log_std[d] + kLogSqrtTwoPi + 0.5f;
  for (int r = 0; r < tile.padded_rows; r += kLanes) {
    V total = V{};
    for (int d = 0; d < plan.dims; ++d) {
      const long at = d * kTile + r;
      const V mean = load(tile.out(0) + at), sample = load(tile.latent() + at);
      if (d_logprob == nullptr) {
        total = total + gaussian_logprob(plan, log_std, d, mean, sample);
        continue;
      }
      const V inverse = exp(splat(-log_std[d]));
      const V z = (sample - mean) * inverse, by_logprob = load(d_logprob + r);
      store(tile.dout(0) + at, by_logprob * z * inverse);
      const V by_log_std = fma(by_logprob, fma(z, z, splat(-1)), load(d_entropy + r));
      for (int lane = 0; lane < kLanes; ++lane) d_log_std[d] += by_log_std[lane];
    }
    if (d_logprob != nullptr) continue;
    store(logprob + r, total);
    store(entropy + r, splat(constant));
  }
}

// ---- acting
// ------------------------------------------------------------------------------------------

void put_rows(Tile& tile, const std::byte* obs, const uint8_t* mask, int first, int rows) {
  const size_t bytes = obs_bytes(tile.plan);
  for (int r = 0; r < rows; ++r) {
    put_obs(tile, r, obs + static_cast<size_t>(first + r) * bytes);
    if (mask != nullptr)
      put_mask(tile, r,
               mask + static_cast<size_t>(first + r) * static_cast<size_t>(tile.plan.outputs));
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

void act_tile(Tile& tile, const ActCall& call, int first) {
  const Plan& plan = tile.plan;
  alignas(64) float uniform[2 * kMaxDims * kTile], latent[kMaxDims * kTile],
      action[kMaxDims * kTile];
  alignas(64) float logprob[kTile];
  const bool box = plan.distribution == Distribution::kGaussian;
  const int per_row = box ? 2 * plan.dims : plan.dims;
  forward(tile, true, call.value != nullptr);
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

void act(const Network& network, const ActCall& call, float* work) {
  Tile tile{*network.plan, network, work};
  for (int first = 0; first < call.count; first += kTile) {
    const int rows = call.count - first < kTile ? call.count - first : kTile;
    put_rows(tile, call.obs, call.mask, first, rows);
    act_tile(tile, call, first);
  }
}

void value(const Network& network, const std::byte* obs, int count, float* out, float* work) {
  Tile tile{*network.plan, network, work};
  for (int first = 0; first < count; first += kTile) {
    const int rows = count - first < kTile ? count - first : kTile;
    put_rows(tile, obs, nullptr, first, rows);
    forward(tile, false, true);
    for (int r = 0; r < rows; ++r) out[first + r] = tile.out(1)[r];
  }
}

// ---- learning
// ------------------------------------------------------------------------------------------

void gather(Tile& tile, const LearnCall& call, int first, int rows) {
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

void learn_tile(Tile& tile, const LearnCall& call, int first) {
  const Plan& plan = tile.plan;
  const bool box = plan.distribution == Distribution::kGaussian, masked = call.mask != nullptr;
  alignas(64) float logprob[kTile] = {}, entropy[kTile] = {}, nothing[kTile] = {};
  alignas(64) float d_logprob[kTile] = {}, d_entropy[kTile] = {};
  forward(tile, call.actor, call.critic);
  const auto head = [&](const float* by_logprob, const float* by_entropy) {
    if (box) {
      gaussian_learn(tile, logprob, entropy, by_logprob, by_entropy, call.gradient + plan.log_std);
    } else {
      categorical_learn(tile, masked, call.epsilon, logprob, entropy, by_logprob, by_entropy);
    }
  };
  if (call.actor) head(nullptr, nullptr);
  float* d_value = tile.dout(1);
  call.loss(call.context, {tile.rows, call.sample + first, logprob, entropy,
                           call.critic ? tile.out(1) : nothing, d_logprob, d_entropy, d_value});
  for (int r = tile.rows; r < tile.padded_rows; ++r) d_logprob[r] = d_entropy[r] = d_value[r] = 0;
  if (call.actor) head(d_logprob, d_entropy);
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    if (branch.first_head == 0 ? !call.actor : !call.critic) continue;
    if (plan.relu) {
      branch_backward<true>(tile, branch, call.gradient);
    } else {
      branch_backward<false>(tile, branch, call.gradient);
    }
  }
}

void learn(const Network& network, const LearnCall& call, float* work) {
  Tile tile{*network.plan, network, work};
  for (int first = 0; first < call.count; first += kTile) {
    gather(tile, call, first, call.count - first < kTile ? call.count - first : kTile);
    learn_tile(tile, call, first);
  }
}

// ---- optimiser
// -------------------------------------------------------------------------------------------

double reduce(const float* const* slots, int count, size_t begin, size_t end, float* target) {
  double squares = 0;
  for (size_t i = begin; i < end; i += kPad) {
    for (size_t j = i; j < i + kPad; j += kLanes) {
      V sum = load(slots[0] + j);
      for (int s = 1; s < count; ++s) sum = sum + load(slots[s] + j);
      store(target + j, sum);
    }
    for (size_t j = i; j < i + kPad; ++j)
      squares += static_cast<double>(target[j]) * static_cast<double>(target[j]);
  }
  return squares;
}

void adam(const AdamCall& call) {
  const V beta1 = splat(call.beta1), beta2 = splat(call.beta2);
  const V rest1 = splat(call.rest1), rest2 = splat(call.rest2);
  for (size_t i = call.begin; i < call.end; i += kLanes) {
    const V g = load(call.gradient + i) * call.scale;
    const V m = fma(beta1, load(call.m + i), rest1 * g);
    const V v = fma(beta2, load(call.v + i), rest2 * (g * g));
    store(call.m + i, m);
    store(call.v + i, v);
    const V size = sqrt(v * call.v_correction) + call.epsilon;
    store(call.params + i, fma(-call.rate * m, reciprocal(size), load(call.params + i)));
  }
}

// to[columns][rows] = from[rows][columns]; both are multiples of 4. Four rows at a time: enough to
// fill vectors, few enough to stay in registers.
void transpose(const float* from, long rows, long columns, float* to) {
  typedef float V4 __attribute__((vector_size(16)));
  const auto get = [](const float* p) {
    V4 v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  };
  for (long r = 0; r < rows; r += 4) {
    for (long c = 0; c < columns; c += 4) {
      const float* p = from + r * columns + c;
      const V4 a = get(p), b = get(p + columns), d = get(p + 2 * columns), e = get(p + 3 * columns);
      const V4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const V4 ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const V4 de0 = __builtin_shufflevector(d, e, 0, 4, 1, 5);
      const V4 de1 = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      const V4 out[4] = {__builtin_shufflevector(ab0, de0, 0, 1, 4, 5),
                         __builtin_shufflevector(ab0, de0, 2, 3, 6, 7),
                         __builtin_shufflevector(ab1, de1, 0, 1, 4, 5),
                         __builtin_shufflevector(ab1, de1, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) __builtin_memcpy(to + (c + i) * rows + r, &out[i], sizeof(V4));
    }
  }
}

void derive(const Plan& plan, const float* params, float* derived) {
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    for (int l = 1; l < branch.layers; ++l) {
      const Layer& layer = plan.layers[branch.first_layer + l];
      transpose(params + layer.weight, layer.in, layer.out, derived + layer.transposed);
    }
  }
  for (int i = 0; i < 2; ++i) {
    const Head& head = plan.heads[i];
    if (head.out <= kSmallHead) continue;
    const long width = padded(head.out);
    for (long o = 0; o < head.out; ++o) {
      for (long k = 0; k < head.in; ++k) {
        derived[head.columns + static_cast<size_t>(k * width + o)] =
            params[head.weight + static_cast<size_t>(o * head.in + k)];
      }
    }
  }
}

void exp_all(const float* x, float* out, int count) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, exp(load(x + i)));
  if (i == count) return;
  alignas(64) float rest[kLanes] = {};
  for (int k = i; k < count; ++k) rest[k - i] = x[k];
  store(rest, exp(load(rest)));
  for (int k = i; k < count; ++k) out[k] = rest[k - i];
}
