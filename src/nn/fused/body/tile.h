// A tile of rows on its way through the network, forwards and backwards. Outputs of heads are kept
// by output: [output][kTile].
// Part of kernel_body.h.
#pragma once

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
  product<kPad>(rows, static_cast<int>(width), head.in, Left{h, h_row, 1},
                {derived + head.columns, width}, FromBias{params + head.bias},
                IntoRows{by_row, width});
  for (int o = 0; o < head.out; o += kLanes) {
    for (int r = 0; r < rows; r += kLanes) {
      V t[kLanes];
      for (int i = 0; i < kLanes; ++i) t[i] = load(by_row + (r + i) * width + o);
      transpose(t);
      for (int i = 0; i < kLanes && o + i < head.out; ++i) store(out + (o + i) * kTile + r, t[i]);
    }
  }
}

struct Tile {
  const Plan& plan;
  const Network& net;
  float* work;
  int rows = 0;         // that are filled
  int padded_rows = 0;  // whole vectors of them; the rest is zero
  bool keeps = false;   // what the way back needs

  float* x() const { return work + plan.work_x; }
  float* out(int head) const {
    return work + plan.work_out + plan.heads[head].first_output * kTile;
  }
  float* dout(int head) const {
    return work + plan.work_dout + plan.heads[head].first_output * kTile;
  }
  float* mask() const { return work + plan.work_mask; }
  float* latent() const { return work + plan.work_latent; }
  // Vectors of what is kept of the softmax of dimension d, kSoftmaxKept of them.
  float* kept_softmax(int d) const {
    return work + plan.work_softmax + static_cast<long>(d) * kSoftmaxKept * kTile;
  }

  float* features(int row) const { return x() + static_cast<long>(row) * plan.input_stride; }
  // With convolutions: the observations, what is kept of them, `size` numbers of each, and what
  // lasts while a group goes through.
  const std::byte** obs() const {
    return reinterpret_cast<const std::byte**>(work + plan.work_obs);
  }
  template <class Number = float>
  Number* kept(size_t place, int row, size_t size) const {
    const int at = keeps ? row : row % plan.group;
    return reinterpret_cast<Number*>(work + place) + static_cast<size_t>(at) * size;
  }
  float* of_group(size_t place, int row, size_t size) const {
    return work + place + static_cast<size_t>(row % plan.group) * size;
  }

  TokenRoom tokens() const { return {net, work, rows}; }

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

// An observation's numbers to the tokens of its groups.
void put_groups(const Tile& tile, int row, const float* x) {
  for (int g = 0; g < tile.plan.group_count; ++g) {
    const TokenPlace& group = tile.plan.groups[g];
    const int numbers = group.count * group.width;
    __builtin_memcpy(tile.work + group.at + static_cast<long>(row) * numbers, x,
                     static_cast<size_t>(numbers) * sizeof(float));
    x += numbers;
  }
}

void put_obs(const Tile& tile, int row, const std::byte* obs) {
  const Plan& plan = tile.plan;
  if (plan.conv_count > 0) {
    tile.obs()[row] = obs;
    return;
  }
  float* x = plan.has_torso() ? tile.work + plan.work_image : tile.features(row);
  if (plan.bytes) {
    const auto* from = reinterpret_cast<const uint8_t*>(obs);
    for (int i = 0; i < plan.inputs; ++i) x[i] = static_cast<float>(from[i]);
  } else {
    const auto* from = reinterpret_cast<const float*>(obs);
    for (int i = 0; i < plan.inputs; ++i) x[i] = from[i];
  }
  if (plan.normalise) {
    for (int i = 0; i < plan.inputs; ++i) {
      x[i] = clipped((x[i] - tile.net.obs_mean[i]) * tile.net.obs_scale[i], plan.obs_clip);
    }
  }
  if (plan.has_torso()) put_groups(tile, row, x);
}

size_t obs_bytes(const Plan& plan) {
  return static_cast<size_t>(plan.inputs) * (plan.bytes ? 1 : sizeof(float));
}

// Of the next tile.
int rows_from(const Tile& tile, int first, int count) {
  return count - first < tile.plan.tile ? count - first : tile.plan.tile;
}

// Masks of the first rows, mask_of(row) for each: squares of them at once, and what is left over.
template <class MaskOf>
void put_masks(const Tile& tile, int rows, MaskOf mask_of) {
  const int whole = tile.plan.outputs / kLanes * kLanes;
  int r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    for (int o = 0; o < whole; o += kLanes) {
      V t[kLanes];
      for (int i = 0; i < kLanes; ++i) t[i] = ones(mask_of(r + i) + o);
      transpose(t);
      for (int i = 0; i < kLanes; ++i) store(tile.mask() + (o + i) * kTile + r, t[i]);
    }
  }
  for (int row = 0; row < rows; ++row) {
    const uint8_t* mask = mask_of(row);
    for (int o = row < r ? whole : 0; o < tile.plan.outputs; ++o)
      tile.mask()[o * kTile + row] = mask[o] != 0 ? 1.0f : 0.0f;
  }
}

// The observations of a tile on their way through the torso, group by group.
template <class Convolutions>
struct Torso {
  typedef typename Convolutions::In In;

  static void forward(const Tile& tile) {
    const Plan& plan = tile.plan;
    in_groups(tile.rows, plan.group, [&](int begin, int size) {
      for (int c = 0; c < plan.conv_count; ++c) {
        in_groups(size, plan.convs[c].group,
                  [&](int i, int count) { forward(tile, c, begin + i, count); });
      }
    });
  }

  // From the gradient of the features. REQUIRES: a tile that keeps.
  static void backward(const Tile& tile, float* gradient) {
    Convolutions::begin_gradient(tile.plan, tile.work);
    in_groups(tile.rows, tile.plan.group,
              [&](int begin, int size) { backward(tile, begin, size, gradient); });
    Convolutions::end_gradient(tile.plan, tile.work, gradient);
  }

 private:
  // Convolution c of `count` observations from `row` on.
  static void forward(const Tile& tile, int c, int row, int count) {
    const Plan& plan = tile.plan;
    const ConvLayer& conv = plan.convs[c];
    const In* in = input(tile, c, row, count);
    const size_t size = conv.out_numbers();
    float* sums = tile.of_group(plan.work_sum, row, size);
    if (conv.last) {
      return Convolutions::forward(tile.net, conv, in, count, sums, tile.features(row), tile.work);
    }
    In* out = tile.kept<In>(conv.out, row, conv.out_size);
    if (conv.role != Role::kPooled) {
      return Convolutions::forward(tile.net, conv, in, count, sums, out, tile.work);
    }
    float *unpooled = tile.work + plan.work_unpooled, *largest = tile.kept(conv.largest, row, size);
    Convolutions::forward(tile.net, conv, in, count, sums, unpooled, tile.work);
    for (int i = 0; i < count; ++i) {
      Convolutions::pool(conv, unpooled, sums, out, largest);
      unpooled += conv.sums();
      sums += size;
      out += conv.out_size;
      largest += size;
    }
  }

  // The gradient of what a block gave waits in `d` while that inside of it is in `other`.
  static void backward(const Tile& tile, int begin, int size, float* gradient) {
    const Plan& plan = tile.plan;
    size_t d = plan.work_dsum, other = plan.work_dother;
    features_backward(tile, begin, size, tile.work + d);
    for (int c = plan.conv_count - 1; c >= 0; --c) {
      const ConvLayer& conv = plan.convs[c];
      const bool inner = conv.role == Role::kInner;
      in_groups(size, conv.group, [&](int i, int count) {
        const int row = begin + i;
        const float* from = tile.of_group(inner ? other : d, row, conv.out_numbers());
        float* to = tile.of_group(inner ? d : other, row, conv.in_numbers());
        backward(tile, c, row, count, from, to, gradient);
      });
      if (conv.role == Role::kInner || conv.role == Role::kOuter) continue;
      const size_t swap = d;
      d = other;
      other = swap;
    }
  }

  // d: the gradient of the last convolution's sums.
  static void features_backward(const Tile& tile, int begin, int size, float* d) {
    const Plan& plan = tile.plan;
    const auto count = static_cast<int>(plan.convs[plan.conv_count - 1].out_numbers());
    for (int row = begin; row < begin + size; ++row, d += count) {
      const float* d_x = tile.work + plan.work_dx + static_cast<long>(row) * plan.input_stride;
      const float* x = tile.features(row);
      for (int i = 0; i < count; i += kLanes) {
        store(d + i, load(x + i) > V{} ? load(d_x + i) : V{});
      }
    }
  }

  // From d to d_below, the gradient of the sums of convolution c and of those that it reads.
  static void backward(const Tile& tile, int c, int row, int count, const float* d, float* d_below,
                       float* gradient) {
    const Plan& plan = tile.plan;
    const ConvLayer& conv = plan.convs[c];
    const In* in = input(tile, c, row, count);
    if (conv.role == Role::kPooled) {
      float* unpooled = tile.work + plan.work_unpooled;
      for (int i = 0; i < count; ++i) {
        const float* largest = tile.kept(conv.largest, row + i, conv.out_numbers());
        Convolutions::unpool(conv, d + i * conv.out_numbers(), largest, unpooled + i * conv.sums());
      }
      d = unpooled;
    }
    Convolutions::add_gradient(plan, conv, in, d, count, gradient, tile.work);
    if (c == 0) return;
    float* d_in = tile.work + plan.work_din;
    Convolutions::input_gradient(tile.net, conv, d, count, d_in, tile.work);
    for (int i = 0; i < count; ++i) {
      Convolutions::take(conv, d_in, in, plan.convs[c - 1].relu, conv.role == Role::kInner,
                         d_below);
      d_in += conv.in_size;
      in += conv.in_size;
      d_below += conv.in_numbers();
    }
  }

  // What convolution c reads.
  static const In* input(const Tile& tile, int c, int row, int count) {
    const ConvLayer& conv = tile.plan.convs[c];
    if (c > 0) return tile.kept<In>(conv.in, row, conv.in_size);
    In* images = (In*)(tile.work + conv.in);
    for (int i = 0; i < count; ++i) image(tile, row + i, images + i * conv.in_size);
    return images;
  }

  // An observation's numbers in a frame; those of bytes in 0..1.
  static void image(const Tile& tile, int row, In* to) {
    const Plan& plan = tile.plan;
    const ConvLayer& conv = plan.convs[0];
    const std::byte* obs = tile.obs()[row];
    const int frame = conv.in_at[0] % conv.in_row, width = conv.in_row - 2 * frame;
    In* line = to + conv.in_at[0];
    for (int first = 0; first < plan.inputs; first += width) {
      if (plan.bytes) {
        const auto* from = reinterpret_cast<const uint8_t*>(obs) + first;
        Convolutions::put_line(from, width, 1.0f / 255, line);
      } else {
        const auto* from = reinterpret_cast<const float*>(obs) + first;
        Convolutions::put_line(from, width, 1, line);
      }
      line += conv.in_row;
    }
  }
};

// Sets the number of rows and clears those that fill the last vector.
void set_rows(Tile& tile, int rows) {
  tile.rows = rows;
  tile.padded_rows = padded(rows, kLanes);
  for (int row = rows; row < tile.padded_rows; ++row) {
    __builtin_memset(tile.features(row), 0,
                     static_cast<size_t>(tile.plan.input_stride) * sizeof(float));
    for (int o = 0; o < tile.plan.outputs; ++o) tile.mask()[o * kTile + row] = 1.0f;
  }
}

template <class Layers, bool kRelu>
void branch_forward(const Tile& tile, const Branch& branch, int first_head, int heads) {
  const Plan& plan = tile.plan;
  // Without a way back, nobody reads what rows that are not filled come to.
  const int rows = tile.keeps ? tile.padded_rows : padded(tile.rows, Layers::kRowUnit);
  for (int l = 0; l < branch.layers; ++l) {
    const Layer& layer = plan.layers[branch.first_layer + l];
    Layers::template forward<kRelu>(tile.net, layer, tile.input(branch, l),
                                    tile.input_row(branch, l), rows, tile.work);
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
template <class Layers>
void forward(const Tile& tile, bool actor, bool critic) {
  if (tile.plan.conv_count > 0) Torso<typename Layers::Convolutions>::forward(tile);
  if (tile.plan.token_layer_count > 0) {
    attention_forward(tile.plan, tile.tokens(), tile.x(), tile.plan.input_stride);
  }
  for (int b = 0; b < tile.plan.branch_count; ++b) {
    const Branch& branch = tile.plan.branches[b];
    int first = branch.first_head, last = branch.first_head + branch.heads;
    if (!actor && first == 0) first = 1;
    if (!critic && last == 2) last = 1;
    if (first >= last) continue;
    if (tile.plan.relu) {
      branch_forward<Layers, true>(tile, branch, first, last - first);
    } else {
      branch_forward<Layers, false>(tile, branch, first, last - first);
    }
  }
}

// The gradient of what the heads of a branch read.
template <bool kRelu>
void heads_backward(const Tile& tile, const Branch& branch, float* d) {
  const float* top = tile.input(branch, branch.layers);
  for (int i = branch.first_head; i < branch.first_head + branch.heads; ++i) {
    const Head& head = tile.plan.heads[i];
    const auto spread = [&](const auto& start, const auto& end) {
      product<kPad>(tile.padded_rows, head.in, head.out, Left{tile.dout(i), 1, kTile},
                    {tile.net.params + head.weight, head.in}, start, end);
    };
    const auto slopes = into_slopes<kRelu>(top, d, head.in);
    if (branch.heads == 1) {
      spread(FromZero(), slopes);
    } else if (i == branch.first_head) {
      spread(FromZero(), IntoRows{d, head.in});
    } else {
      spread(FromRows{d, head.in}, slopes);
    }
  }
}

template <class Layers, bool kRelu>
void branch_backward(const Tile& tile, const Branch& branch, float* gradient, bool begins) {
  const Plan& plan = tile.plan;
  const int rows = tile.padded_rows;
  const float* top = tile.input(branch, branch.layers);
  const long top_row = tile.input_row(branch, branch.layers);
  float* d = tile.work + plan.work_d0;
  float* d_below = tile.work + plan.work_d1;
  for (int i = branch.first_head; i < branch.first_head + branch.heads; ++i) {
    const Head& head = plan.heads[i];
    const float* dout = tile.dout(i);
    add_product(head.out, head.in, rows, Left{dout, kTile, 1}, {top, top_row},
                gradient + head.weight, begins);
    if (begins) clear(gradient + head.bias, head.out);
    for (int o = 0; o < head.out; ++o) {
      V sum = V{};
      for (int r = 0; r < rows; r += kLanes) sum = sum + load(dout + o * kTile + r);
      float total = 0;
      for (int lane = 0; lane < kLanes; ++lane) total += sum[lane];
      gradient[head.bias + o] += total;
    }
  }
  if (branch.layers > 0) heads_backward<kRelu>(tile, branch, d);
  for (int l = branch.layers - 1; l >= 0; --l) {
    const Layer& layer = plan.layers[branch.first_layer + l];
    Layers::add_gradient(tile.net, layer, tile.input(branch, l), tile.input_row(branch, l), d, rows,
                         gradient + layer.weight, begins, tile.work);
    if (begins) clear(gradient + layer.bias, layer.out);
    add_column_sums(d, rows, layer.out, gradient + layer.bias);
    if (l == 0) {
      if (plan.has_torso()) {
        Layers::add_input_gradient(tile.net, layer, d, rows, tile.work + plan.work_dx,
                                   plan.input_stride, tile.work);
      }
      break;
    }
    Layers::template backward<kRelu>(tile.net, layer, d, rows, tile.input(branch, l), d_below,
                                     tile.work);
    float* swap = d;
    d = d_below;
    d_below = swap;
  }
}
