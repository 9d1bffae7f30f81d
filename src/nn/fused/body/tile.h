// A tile of rows on its way through the network, forwards and backwards. Outputs of heads are kept
// by output: [output][kTile].
// Part of kernel_body.h.
#pragma once

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
